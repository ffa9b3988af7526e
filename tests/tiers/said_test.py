#!/usr/bin/env python3
"""Tests what is read from the output of tiers. Usage: said_test.py"""

import unittest

import said

RUST = """
running 3 tests
test one ... ok
test deep::two ... ok

successes:

---- one stdout ----
70 logs, all equal
1
2
3

---- deep::two stdout ----
not run: deep::two: needs a disk

successes:
    one
    deep::two

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 4 filtered out; finished in 0.01s
"""


class Reading(unittest.TestCase):
    def test_rust_counts_and_lines(self):
        read = said.read(RUST)
        self.assertEqual((2, 1, 0, True), (read.passed, read.failed, read.ignored, read.counted))
        self.assertEqual(["deep::two: needs a disk"], read.not_run)
        self.assertEqual([("one", "70 logs, all equal"), ("one", "1"), ("one", "2")], read.measured)

    def test_failures_are_not_measured(self):
        text = "failures:\n\n---- bad stdout ----\npanicked\n\nfailures:\n    bad\n"
        self.assertEqual([], said.read(text).measured)

    def test_a_panic_that_was_meant_is_not_measured(self):
        text = "successes:\n\n---- good stdout ----\n3 steps\n\nthread 'good' panicked at x\n  0: main\n"
        self.assertEqual([("good", "3 steps")], said.read(text).measured)

    def test_lines_of_a_harness_that_does_not_capture(self):
        read = said.read("running 1 test\nrun 7: reused\ntest a ... ok\n\n1 passed, 0 failed\n", captured=False)
        self.assertEqual([("", "run 7: reused")], read.measured)

    def test_several_results_add_up(self):
        line = "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\n"
        read = said.read(line * 2)
        self.assertEqual((10, 0, 4), (read.passed, read.failed, read.ignored))

    def test_a_suite_of_its_own(self):
        self.assertEqual(3, said.read("test a ... ok (0.1 s)\n3 passed, 0 failed\n").passed)

    def test_python_failures_are_no_passes(self):
        read = said.read("Ran 7 tests in 0.1s\n\nFAILED (failures=1, errors=2)\n")
        self.assertEqual((4, 3), (read.passed, read.failed))

    def test_what_did_not_run_is_named_once_however_it_was_printed(self):
        read = said.read("test x ... not run: x: no root\nnot run: x: no root\n")
        self.assertEqual(["x: no root"], read.not_run)

    def test_what_a_suite_could_not_run_is_no_pass(self):
        text = ("test a ... ignored (no root)\nnot run: a: no root\ntest b ... ok\n\n"
                "test result: ok. 1 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s\n")
        read = said.read(text, captured=False)
        self.assertEqual((1, 1, ["a: no root"]), (read.passed, read.ignored, read.not_run))

    def test_silence_is_no_count(self):
        self.assertFalse(said.read("Segmentation fault").counted)


if __name__ == "__main__":
    unittest.main()
