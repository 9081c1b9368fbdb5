"""A capture of packets, as a program for a Python in a network namespace."""

from __future__ import annotations

# Prints each packet that leaves the machine: the platform's device, source and destination. First: that it listens.
# After the end of its input it ends as soon as a second has no packet. A machine that never stops sending has five: by
# then the kernel has the neighbour's address for what was sent before, or has given up.
CAPTURE = """
import json, select, socket, sys, time
sockets = {}
for device in sys.argv[1:]:
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))  # every protocol
    one.bind((device, 3))
    sockets[one] = device
print("listening", flush=True)
waiting, quiet, last = [*sockets, sys.stdin], None, float("inf")
while time.monotonic() < last and (ready := select.select(waiting, [], [], quiet)[0]):
    for one in ready:
        if one is sys.stdin:
            waiting, quiet, last = [*sockets], 1.0, time.monotonic() + 5.0
            continue
        frame, sender = one.recvfrom(65536)
        kind, packet = frame[12:14], frame[14:]
        if sender[2] == 4 or kind not in (b"\\x08\\x00", b"\\x86\\xdd"):  # 4: PACKET_OUTGOING, the platform's own
            continue
        family, at, size, protocol, head = (
            (socket.AF_INET, 12, 4, packet[9], (packet[0] & 15) * 4)
            if kind == b"\\x08\\x00"
            else (socket.AF_INET6, 8, 16, packet[6], 40)
        )
        source, target = (socket.inet_ntop(family, packet[k : k + size]) for k in (at, at + size))
        ports = packet[head : head + 4] if protocol in (6, 17) else bytes(4)
        port = int.from_bytes(ports[2:4], "big")
        print(json.dumps({"device": sockets[one], "source": source, "target": target, "port": port}), flush=True)
"""
