"""
The bound and its alternatives
==============================

PAC-Bayes-kl, its relaxations and its alternatives, as functions of the empirical loss, for one posterior.
"""

import matplotlib.pyplot as plt
import numpy as np

from pacbayes import bounds

losses = np.linspace(0, 0.4, 200)
n, kl_div, delta = 1000, 5.0, 0.05

figure, ax = plt.subplots(layout="constrained")
ax.plot(losses, bounds.pac_bayes_kl(losses, kl_div, n, delta), label="PAC-Bayes-kl")
ax.plot(losses, bounds.pac_bayes_sqrt(losses, kl_div, n, delta), "--", label="PAC-Bayes-lambda at its best lambda")
ax.plot(losses, bounds.catoni(losses, kl_div, n, 1.0, delta), ":", label="Catoni, lambda = 1 fixed in advance")
ax.plot(losses, losses, color="grey", linewidth=1, label="empirical loss")
ax.set(xlabel="empirical loss of the posterior", ylabel="bound on its expected loss")
ax.legend()
