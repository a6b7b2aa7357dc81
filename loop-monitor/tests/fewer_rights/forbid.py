"""Runs a program to which one system call is forbidden, as a container's seccomp profile does.

`forbid.py NAME PROGRAM ARGUMENT…`; a forbidden call fails with EPERM (seccomp(2), x86-64).
"""

import ctypes
import os
import struct
import sys

CALLS = {"ptrace": 101, "prctl-59": 157, "perf_event_open": 298, "process_vm_readv": 310}
PR_SET_SECCOMP, FILTER = 22, 2
PR_SET_NO_NEW_PRIVS = 38
# bpf(4): load a word of `struct seccomp_data`, jump if equal, return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
NUMBER, FIRST_ARGUMENT = 0, 16
ALLOW, FAIL_WITH_EPERM = 0x7FFF0000, 0x00050001

name, program = sys.argv[1], sys.argv[2:]
steps = [(LOAD, 0, 0, NUMBER)]
if name == "prctl-59":  # Syscall User Dispatch, and no other use of prctl
    steps += [
        (JUMP_IF_EQUAL, 0, 3, CALLS[name]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_IF_EQUAL, 0, 1, 59),
    ]
else:
    steps += [(JUMP_IF_EQUAL, 0, 1, CALLS[name])]
steps += [(RETURN, 0, 0, FAIL_WITH_EPERM), (RETURN, 0, 0, ALLOW)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))


class Filter(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_void_p)]


libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, os.strerror(ctypes.get_errno())
filtered = Filter(len(steps), ctypes.addressof(code))
done = libc.prctl(PR_SET_SECCOMP, FILTER, ctypes.byref(filtered))
assert done == 0, os.strerror(ctypes.get_errno())
os.execvp(program[0], program)
