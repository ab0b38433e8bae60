"""What scikit-learn's boosted trees predict by, as arrays: an oracle for compiled prediction."""

import numpy as np

from pacbayes.pools import TreeArrays
from pacbayes.pools._tree_ensembles import distinct_leaves


def from_boosting(model, class_codes, encoding=None):
    """Return the trees of a HistGradientBoostingClassifier, whose categorical features are the first ones."""
    trees = [tree for trees in model._predictors for tree in trees]
    nodes, sets = np.concatenate([tree.nodes for tree in trees]), []
    is_split = nodes["is_leaf"] == 0
    is_set = is_split & (nodes["is_categorical"] != 0)
    for tree in trees:
        own = tree.nodes[(tree.nodes["is_leaf"] == 0) & (tree.nodes["is_categorical"] != 0)]
        sets.append(np.ascontiguousarray(tree.raw_left_cat_bitsets[own["bitset_idx"]], dtype="<u4"))
    values, leaf = distinct_leaves(nodes["value"][~is_split][:, np.newaxis])
    return TreeArrays.of(
        "boosting",
        class_codes,
        model.n_features_in_,
        encoding,
        learning_rate=model.learning_rate,
        baseline=model._baseline_prediction.ravel(),
        tree_sizes=np.array([tree.nodes.size for tree in trees]),
        feature=np.where(is_split, nodes["feature_idx"], -1),
        threshold=np.where(is_set, 0.0, nodes["num_threshold"])[is_split],
        missing_left=nodes["missing_go_to_left"][is_split] != 0,
        sets=np.concatenate(sets).view("<u8").astype(np.uint64).reshape(-1, 4),
        leaf=leaf,
        values=values,
    )
