"""The shape of the package: few entries, short functions, and no private name of one room in another.

A room is an entry of `src/pacbayes`: a package or a module. Private modules next to the rooms serve all of them.
"""

import ast
from collections import defaultdict
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "pacbayes"

# Private attributes of other libraries that rooms happen to have names of: model files are checked for the labels of
# scikit-learn's nearest neighbours.
OF_OTHERS = {"_y"}

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@pytest.fixture(scope="module")
def trees():
    return {path.relative_to(SOURCE): ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}


def room_of(path):
    return path.parts[0].removesuffix(".py")


def is_private(name):
    """Whether a name is private: neither special to Python nor to notebooks (`_repr_html_`)."""
    return name.startswith("_") and not name.endswith("__") and not name.startswith("_repr_")


def defined_names(tree):
    """Private names that a module defines: functions, classes, variables, and attributes of `self` and `cls`."""
    for node in ast.walk(tree):
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node.value):
            yield node.attr


def is_own(value):
    """Whether attributes of an expression are those of the class that it stands in: self, cls or super()."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and value.func.id == "super"
    return isinstance(value, ast.Name) and value.id in ("self", "cls")


def private_imports(room, tree):
    """Imports of private modules of another room, and of private names of another module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            imported = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        else:
            continue
        for name in imported:
            package, *parts = name.split(".")
            if package == "pacbayes" and parts and parts[0] != room and any(map(is_private, parts[1:])):
                yield node.lineno, name


def private_attributes(tree, foreign):
    """Attributes of others than `self` and `cls` with names that only other rooms define, also by `getattr`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in foreign and not is_own(node.value):
            yield node.lineno, f"{ast.unparse(node.value)}.{node.attr}"
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) > 1:
            name = node.args[1].value if isinstance(node.args[1], ast.Constant) else None
            by_name = node.func.id in ("getattr", "setattr", "delattr", "hasattr") and name in foreign
            if by_name and not is_own(node.args[0]):
                yield node.lineno, ast.unparse(node)


def private_uses(trees):
    defined = defaultdict(set)
    for path, tree in trees.items():
        defined[room_of(path)].update(filter(is_private, defined_names(tree)))
    for path, tree in trees.items():
        room = room_of(path)
        foreign = set().union(*(names for other, names in defined.items() if other != room)) - defined[room] - OF_OTHERS
        for line, name in (*private_imports(room, tree), *private_attributes(tree, foreign)):
            yield f"{path}:{line}: {name}"


def test_private_uses_are_found():
    """The check itself, on rooms that do what they should not."""
    trees = {
        "a/_x.py": "class A:\n  _field: int\n  def _method(self): self._set = 1\n_constant = 1",
        "b.py": "from pacbayes.a._x import A\nfrom pacbayes.a import _constant\nimport pacbayes.a._x",
        "c/y.py": "a._field\na()._method()\na._set = 1\nmodule._constant\ngetattr(a, '_field')",
        "d.py": "from pacbayes._tools import public\nfrom pacbayes.d._own import x\nself._field\nsuper()._method()",
        "e.py": "_field = 1\na._field\nrow._replace(x=1)\na.__dict__\nfrom numpy._core import y",
    }
    found = [use.split(":")[0] for use in private_uses({Path(k): ast.parse(v) for k, v in trees.items()})]
    assert found == ["b.py"] * 3 + ["c/y.py"] * 5


def test_no_room_uses_private_names_of_another(trees):
    assert list(private_uses(trees)) == []


def test_few_public_entries():
    entries = {path.stem for path in SOURCE.iterdir() if not path.name.startswith("_") and path.name != "py.typed"}
    assert len(entries) <= 20, sorted(entries)


def count_lines(function):
    """Lines of a function without its docstring."""
    lines = function.end_lineno - function.lineno + 1
    if ast.get_docstring(function) is None:
        return lines
    return lines - (function.body[0].end_lineno - function.body[0].lineno + 1)


def test_functions_are_short(trees):
    """At most 60 lines but for the commands, whose options are their arguments."""
    long = [
        f"{path}:{node.lineno}: {node.name} has {count_lines(node)} lines"
        for path, tree in trees.items()
        if room_of(path) != "cli"
        for node in ast.walk(tree)
        if isinstance(node, FUNCTIONS) and count_lines(node) > 60
    ]
    assert long == []


def test_the_classifier_is_thin():
    """Settings in, `fit_votes`, attributes out."""
    assert len((SOURCE / "classifier.py").read_text(encoding="utf-8").splitlines()) <= 400
