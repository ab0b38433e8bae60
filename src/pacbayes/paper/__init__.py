"""The experiments of the paper, and the page of their results.

`tables` holds the paper's settings and numbers, `splits` the data, `aggregation` the weighted vote of weak SVMs, and
`experiments` one function for each of the paper's experiments. `runner` runs them and stores their results, `records`
reads these, `findings` checks the paper's claims, `figures` draws the figures and `page` puts everything on one page.
The command is ``pacbayes paper``.
"""
