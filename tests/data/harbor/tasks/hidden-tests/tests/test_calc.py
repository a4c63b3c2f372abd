import sys
import unittest

sys.path.insert(0, "/app")


class Adding(unittest.TestCase):
    def test_adds(self):
        import calc

        self.assertEqual(calc.add(2, 40), 42)
        self.assertEqual(calc.add(-1, 1), 0)
