"""LSTM with projection over a whole sequence, forward and backward, for any array library."""

from kernels.lstm.definition import Feedback
from kernels.lstm.sequence import Workspace, lstm_backward, lstm_forward

__all__ = ["Feedback", "Workspace", "lstm_backward", "lstm_forward"]
