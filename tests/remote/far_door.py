"""`far_door.py PORT PROGRAM…`: the program's stdin and stdout, over TCP, for a `Door` at the other end."""

import os
import socket
import sys
import threading

sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
sock.sendall("\0".join(sys.argv[2:]).encode() + b"\n")


def down():
    while data := sock.recv(1 << 16):
        view = memoryview(data)
        while view:
            view = view[os.write(1, view) :]
    os._exit(0)


threading.Thread(target=down, daemon=True).start()
try:
    while data := os.read(0, 1 << 16):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)
    threading.Event().wait()
except OSError:
    os._exit(1)
