"""An event loop that is traced by a test: each line on its standard input names what to do.

`CANARY TIMES` does it in a step of the loop, `exec` becomes another program, `thread` ends a thread;
after each one a line is printed. It ends with its input.

With `threads` each loop runs on a thread of its own, and `end` ends one, after which comes the next.
"""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ANSWERING, ASKING = socket.socketpair()
HELD = threading.Lock()
HELD.acquire()


async def sleeps():
    time.sleep(0)
    time.sleep(0.0001)


async def reads_a_cached_file():
    with open(__file__) as file:
        file.read()


async def asks_a_quick_peer():
    ASKING.sendall(b"x")
    ASKING.recv(1)


async def looks_up_a_name():
    socket.getaddrinfo("localhost", 80)


async def syncs_a_file():
    with tempfile.TemporaryFile() as file:
        os.fsync(file.fileno())


async def starts_a_process():
    subprocess.run(["true"])


async def waits_for_a_lock():
    HELD.acquire(timeout=0.0001)


async def polls():
    import select

    select.select([], [], [], 0.0001)


async def computes():
    sum(range(1_000))


async def awaits_a_sleep():
    await asyncio.sleep(0.0001)


async def uses_a_thread():
    await asyncio.to_thread(time.sleep, 0.0001)




async def logs():
    sys.stderr.write("a line\n")


def answer():
    while ANSWERING.recv(1):
        ANSWERING.sendall(b"y")


def spin():
    while True:
        sum(range(100))


async def perform(word, times):
    if word == "spinner":
        threading.Thread(target=spin, daemon=True).start()
    elif word == "exec":
        os.execvp("sleep", ["sleep", "100"])
    elif word == "thread":
        await asyncio.to_thread(threading.current_thread)
    else:
        for _ in range(times):
            await globals()[word]()


async def main():
    """Tell whether there may be a next loop."""
    loop = asyncio.get_running_loop()
    words = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(words)
    transport, _ = await loop.connect_read_pipe(lambda: protocol, os.fdopen(os.dup(0)))
    print("ready", flush=True)
    while line := (await words.readline()).split():
        if line[0] == b"end":
            transport.close()
            return True
        await perform(line[0].decode(), int(line[1]) if len(line) > 1 else 1)
        print(line[0].decode(), *received, flush=True)
    return False


def run_in_threads():
    going_on = [True]
    while going_on.pop():
        thread = threading.Thread(target=lambda: going_on.append(asyncio.run(main())))
        thread.start()
        thread.join()
        time.sleep(0.3)  # no loop runs


received = []
for number in (signal.SIGUSR1, signal.SIGRTMIN + 3):
    signal.signal(number, lambda number, _: received.append(number))
threading.Thread(target=answer, daemon=True).start()
if "uvloop" in sys.argv:
    import uvloop

    uvloop.install()
if "threads" in sys.argv:
    run_in_threads()
else:
    asyncio.run(main())
