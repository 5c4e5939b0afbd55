"""Linux namespaces from Python, without root, like ``unshare`` and ``nsenter``, with errors that name the cause.

A process that unshares a user namespace is root within it, and may make its own networks, mounts and host names there.
A namespace ends with its last process, so nothing has to be removed: unshare(2), user_namespaces(7).
"""

import ctypes
import os
from pathlib import Path

KINDS = {  # name of /proc/PID/ns/NAME -> flag of <sched.h>
    "user": 0x10000000,
    "pid": 0x20000000,
    "net": 0x40000000,
    "mnt": 0x00020000,
    "uts": 0x04000000,
    "ipc": 0x08000000,
}
MOUNT_FLAGS = {"nosuid": 2, "nodev": 4, "bind": 4096, "recursive": 16384, "private": 1 << 18}

_libc = ctypes.CDLL(None, use_errno=True)


class ClusterError(RuntimeError):
    """The cluster cannot be made, or its options are wrong. The message says what is missing and what to do."""


def unshare(*kinds: str) -> None:
    """Move this process into new namespaces of these kinds (KINDS); for "pid", only its children. Local.

    Raises ClusterError if the kernel or a sandbox does not allow it.
    """
    for kind in kinds:
        remedy = (
            f"it needs a kernel and a sandbox that allow them (sysctl user.max_{kind}_namespaces above 0"
            + ("; kernel.unprivileged_userns_clone=1 and kernel.apparmor_restrict_unprivileged_userns=0 where a system "
               "has them" if kind == "user" else "")
            + "; in a container: --security-opt seccomp=unconfined, or --privileged)"
        )
        _call(f"cannot make a {kind} namespace", remedy, _libc.unshare, KINDS[kind])


def become_root() -> None:
    """Become user 0 and group 0 of a new user namespace. Outside, user and group stay the same. Local.

    Raises ClusterError if no user namespace can be made.
    """
    user, group = os.geteuid(), os.getegid()
    unshare("user")
    for name, line in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        try:
            Path("/proc/self", name).write_text(line)
        except OSError as error:
            raise ClusterError(f"cannot map the user of a new namespace ({name}: {error.strerror}): allow unprivileged "
                               "user namespaces") from error


def enter(pid: int, *kinds: str) -> None:
    """Move this process into the namespaces of process ``pid``. Local."""
    for kind in kinds:
        descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
        join(descriptor, kind)
        os.close(descriptor)


def join(descriptor: int, kind: str) -> None:
    """Move this process into the namespace of an open file of /proc/PID/ns. Local."""
    _call(f"cannot enter a {kind} namespace", "it needs the rights of that namespace's user", _libc.setns, descriptor,
          KINDS[kind])


def mount(source: str, target: str, kind: str = "", *flags: str) -> None:
    """Mount ``source`` of file system ``kind`` on ``target``. flags: MOUNT_FLAGS. Local. Raises ClusterError."""
    _call(f"cannot mount {kind or source} on {target}", "it needs a sandbox that allows mounts in a user namespace",
          _libc.mount, source.encode(), target.encode(), kind.encode() or None,
          ctypes.c_ulong(sum(MOUNT_FLAGS[flag] for flag in flags)), None)


def _call(problem: str, remedy: str, function, *arguments) -> None:
    if function(*arguments):
        code = ctypes.get_errno()
        raise ClusterError(f"{problem} ({os.strerror(code)}): {remedy}")
