"""The experiments of the paper, one module each, and the page of their results.

| Module | In the paper |
| --- | --- |
| `baseline` | the RBF-SVM tuned by cross-validation |
| `accuracy` | figures heatmap_kernel and appheatmap |
| `runtime` | figures runtime_kernel and appruntime |
| `weighting` | figures appprediction and appprediction_max |
| `quasiconvexity` | table quasiconvexity |
| `f_lambda` | figure f_lambda_convex |
| `validation` | figure direct_vs_validate |
| `comparison` | figure mjv-vs-rnd and table 50-pcnt |

`tables` holds the paper's settings and numbers. `runner` runs the experiments and stores their results, `records` reads
these, `findings` checks the paper's claims, `figures` draws the figures and `page` puts everything on one page. The
command is ``pacbayes paper``.
"""
