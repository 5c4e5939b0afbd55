"""Support vector machines on one rank or on many, the same bits on any number. Plainly: ``refimpl.plain.svm``.

    from refimpl.svm import SVC
    SVC(C=10, gamma=0.1).fit(X, y).predict(X)          mpirun -n 4 python script.py: on 4 ranks
"""

from refimpl.handed_on import handed_on

__all__ = ["SVC"]
__getattr__, __dir__ = handed_on(__name__, {"SVC": "refimpl.svm.estimator"})
