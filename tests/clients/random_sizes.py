"""Replaces values of random sizes, and compares the server's resident memory with that in use.

    python3 tests/clients/random_sizes.py PORT SECONDS

KEYS values of 16 bytes to 64 KiB, log-uniform, about 64 MiB together, are overwritten
at random for SECONDS. Each 10 s and at the end it prints `used_memory`,
`used_memory_rss` and their ratio; it fails if the last ratio is above MOST.
It needs the standard library alone.
"""

import math
import random
import socket
import sys
import time

KEYS = 8500
MOST = 1.4
BATCH = 64


def main() -> None:
    port, seconds = int(sys.argv[1]), float(sys.argv[2])
    seed = random.randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    draw = random.Random(seed)
    server = socket.create_connection(("127.0.0.1", port))
    replies = server.makefile("rb")
    block = draw.randbytes(64 * 1024)
    span = math.log(len(block) / 16)
    start = shown = time.monotonic()
    ratio = 0.0
    while time.monotonic() - start < seconds:
        batch = []
        for _ in range(BATCH):
            value = block[: int(16 * math.exp(draw.random() * span))]
            key = b"key:%d" % draw.randrange(KEYS)
            head = b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n" % (len(key), key, len(value))
            batch.append(head + value + b"\r\n")
        server.sendall(b"".join(batch))
        for _ in batch:
            assert replies.readline() == b"+OK\r\n"
        if time.monotonic() - shown >= 10:
            shown = time.monotonic()
            ratio = show(server, replies, shown - start)
    ratio = show(server, replies, time.monotonic() - start)
    if ratio > MOST:
        sys.exit(f"resident memory is above {MOST} times what is in use")


def show(server: socket.socket, replies, elapsed: float) -> float:
    """Prints the figures; returns resident over used memory."""
    server.sendall(b"INFO memory\r\n")
    length = int(replies.readline()[1:])
    text = replies.read(length + 2).decode()
    fields = dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)
    used, resident = int(fields["used_memory"]), int(fields["used_memory_rss"])
    ratio = resident / used
    print(f"{elapsed:.0f} s: used {used >> 20} MiB, resident {resident >> 20} MiB, {ratio:.2f}", flush=True)
    return ratio


main()
