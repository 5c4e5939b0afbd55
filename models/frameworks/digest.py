"""The digest of what a framework's model has and does not train: all ranks must have the same."""

import hashlib


def digest_of(constants) -> str:
    """Return the first digits of the SHA-256 of all constants, "none" if there are none. Local.

    constants: ("name dtype shape", its bytes, or an array of them) of each, in an order that all ranks have.
    """
    digest, count = hashlib.sha256(), 0
    for count, (what, content) in enumerate(constants, 1):
        digest.update(f"{what}\n".encode())
        digest.update(content)
    return digest.hexdigest()[:16] if count else "none"
