"""Codecs: how an array is encoded before it travels, and decoded where it arrives. A value on a placement of the plan.

There is one so far, the identity: every bit arrives. To add one (float16, top-k, error feedback) is to add its class
here; the exchanges of the strategies that can carry it encode before a message, decode after it, and count its bytes.
"""

from refimpl.plan.strategy import IDENTITY

CODECS = (IDENTITY,)
"""The names of those that there are."""
