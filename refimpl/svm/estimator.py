"""A support vector classifier with scikit-learn's interface."""

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import _ovr_decision_function, check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from kernels.svm.definition import KernelFunction
from models.svm.classes import train_classifier
from models.svm.solver import SvmOptions
from refimpl.svm.ranks import SvmRanks

NAMES = {"rbf": "gaussian", "linear": "linear", "poly": "polynomial"}


class SVC(ClassifierMixin, BaseEstimator):
    """A support vector classifier of two classes or more (one against one).

    C, kernel ("rbf", "linear", "poly"), degree, gamma, coef0, tol, cache_size (megabytes a rank): as in scikit-learn.
    selection, elimination, period, block: see ``models.svm.solver.SvmOptions``.  comm: mpi4py's communicator; None: all
    ranks. ``fit`` is collective over it: all ranks give the same X and y. All other methods are local.
    """

    def __init__(self, C=1.0, kernel="rbf", degree=3, gamma="scale", coef0=0.0, tol=1e-3, cache_size=200,
                 selection="second", elimination="multi", period=None, block=64, comm=None):
        self.C, self.kernel, self.degree, self.gamma, self.coef0 = C, kernel, degree, gamma, coef0
        self.tol, self.cache_size, self.comm = tol, cache_size, comm
        self.selection, self.elimination, self.period, self.block = selection, elimination, period, block

    def fit(self, X, y):
        """Train. X: (n, features).  y: (n,), classes.  Collective. Raises ValueError for wrong data or options."""
        X, y = validate_data(self, X, y, dtype=np.float64, accept_sparse="csr")
        check_classification_targets(y)
        if self.kernel not in NAMES:
            raise ValueError(f"the kernel {self.kernel!r} is none of {', '.join(NAMES)}")
        kernel = KernelFunction(NAMES[self.kernel], self._gamma(X), self.degree, self.coef0)
        options = SvmOptions(self.C, self.tol, self.selection, self.elimination, self.period,
                             int(self.cache_size * 2**20), self.block)
        self.classifier_, solvers = train_classifier(X, y, kernel, options, SvmRanks.of(self.comm))
        self.classes_ = self.classifier_.classes
        self.intercept_ = np.array([-machine.bias for machine in self.classifier_.machines])
        pairs = [np.flatnonzero(np.isin(y, self.classes_[list(pair)])) for pair in self.classifier_.pairs]
        supports = [samples[solver.alpha > 0] for samples, solver in zip(pairs, solvers)]
        self.support_ = np.unique(np.concatenate(supports))
        self.support_vectors_ = X[self.support_]
        self.n_iter_ = np.array([solver.iterations for solver in solvers])
        return self

    def __sklearn_tags__(self):
        """Return scikit-learn's description of this estimator, which takes sparse matrices. Local."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _gamma(self, X) -> float:
        if self.gamma == "auto":
            return 1.0 / X.shape[1]
        if self.gamma == "scale":
            variance = X.multiply(X).mean() - X.mean() ** 2 if issparse(X) else X.var()
            return 1.0 / (X.shape[1] * variance) if variance else 1.0
        if isinstance(self.gamma, str):
            raise ValueError(f"gamma is {self.gamma!r}: give a number above 0, or 'scale' or 'auto'")
        return self.gamma

    def decision_function(self, X):
        """Return (n,) for two classes: above 0 means the second; else (n, classes): the largest wins. Local."""
        check_is_fitted(self)
        decisions = self.classifier_.decide(validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False))
        if len(self.classes_) == 2:
            return decisions[:, 0]
        return _ovr_decision_function(decisions > 0, decisions, len(self.classes_))

    def predict(self, X):
        """Return the class of each row of X: (n,). Local."""
        check_is_fitted(self)
        return self.classifier_.predict(validate_data(self, X, dtype=np.float64, accept_sparse="csr", reset=False))
