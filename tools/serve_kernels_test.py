#!/usr/bin/env python3
"""Tests of serve_kernels.py by the protocol alone: cuda/plugin/PROTOCOL.md. What the program makes of it: cli_python_test.cpp."""

import array
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import unittest

SERVER = pathlib.Path(__file__).with_name("serve_kernels.py")
KERNELS = """
import serve_kernels

def supports(problem):
    return f"unmasked_scores {problem.unmasked_scores}"

class Mute(Exception):
    def __str__(self):
        raise ValueError("no words")

def rude(problem):
    import sys
    sys.stdout.close()
    raise Mute()

serve_kernels.kernel("index_scores", name="mine", supports=supports)(print)
serve_kernels.kernel("index_scores", name="rude", supports=rude)(print)
"""
PROBLEM, UNMASKED_SCORES = 448, 328  # in the block of a call, in the problem
WHOLE, OLDER = 336, 328  # bytes of a problem with unmasked_scores, without


class Server(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        path = pathlib.Path(self.folder.name) / "mine.py"
        path.write_text(KERNELS)
        self.socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with other:
            self.process = subprocess.Popen([sys.executable, str(SERVER), str(path), str(other.fileno())],
                                            pass_fds=[other.fileno()])
        self.addCleanup(self.process.wait)
        self.addCleanup(self.socket.close)
        self.assertEqual(self.socket.recv(4096), b"mlacheck-worker 1")
        self.assertEqual(self.ask("describe", b"", 520 + 256 * 1792), "done")

    def ask(self, request, content, size=8192):
        block = os.memfd_create("block")
        try:
            os.truncate(block, size)
            os.pwrite(block, content, 0)
            self.socket.sendmsg([f"7 {request}".encode()],
                                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [block]))])
        finally:
            os.close(block)
        number, answer = self.socket.recv(4096).decode().split(" ", 1)
        self.assertEqual(number, "7")
        return answer

    @staticmethod
    def call(following=0, bytes_of_problem=WHOLE, unmasked_scores=0):
        content = bytearray(1024)
        struct.pack_into("<iI", content, 0, 1, following)
        struct.pack_into("<Ii", content, PROBLEM, bytes_of_problem, 2)
        struct.pack_into("<i", content, PROBLEM + UNMASKED_SCORES, unmasked_scores)
        return content

    def test_unknown_task(self):
        self.assertEqual(self.ask("runs mine", self.call()), "failed unknown task 'runs'")

    def test_error_without_words_and_closed_output(self):
        for _ in range(2):
            self.assertEqual(self.ask("supports rude", self.call()), "failed mine.py:14: Mute: (no words: ValueError)")
        self.assertEqual(self.ask("supports mine", self.call()), "refused unmasked_scores 0")
        self.socket.close()
        self.assertEqual(self.process.wait(), 0)

    def test_chain(self):
        self.assertEqual(self.ask("run mine\nmine", self.call(following=1)),
                         "refused a chain of 2 stages: kernels in Python are called one by one")

    def test_kernels_see_unmasked_scores(self):
        for value in (0, 1):
            self.assertEqual(self.ask("supports mine", self.call(unmasked_scores=value)),
                             f"refused unmasked_scores {value}")
        # What stands behind a problem that has no such field is none.
        self.assertEqual(self.ask("supports mine", self.call(bytes_of_problem=OLDER, unmasked_scores=1)),
                         "refused unmasked_scores 0")


if __name__ == "__main__":
    unittest.main()
