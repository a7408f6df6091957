"""Tests of scripts/wrap-comments.py: python3 -m unittest discover -s scripts."""

import importlib.util
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("wrap-comments.py")
SPEC = importlib.util.spec_from_file_location("wrap_comments", SCRIPT)
wrap_comments = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(wrap_comments)
wrap = wrap_comments.wrap

LONG = "After it opens without an ACK, a window is advertised only once it has doubled, and so on, as far as here."


class Wrapping(unittest.TestCase):
    def test_line_comments(self):
        for marker in ("///", "//!"):
            made, changed = wrap(f"fn f() {{\n    {marker} {LONG}\n    {marker} Then more.\n}}\n")
            self.assertEqual(changed, [2])
            self.assertEqual(
                made,
                f"fn f() {{\n    {marker} After it opens without an ACK, a window is advertised only once it has doubled, and so on,\n"
                f"    {marker} as far as here. Then more.\n}}\n",
            )

    def test_block_comments(self):
        # A tab is eight columns wide.
        self.assertEqual(
            wrap(f"\t/* {LONG} */\n")[0],
            "\t/* After it opens without an ACK, a window is advertised only once it has doubled, and so\n"
            "\t * on, as far as here. */\n",
        )
        self.assertEqual(
            wrap(f"/*\n * Short.\n *\n * {LONG}\n */\n"),
            (
                "/*\n * Short.\n *\n * After it opens without an ACK, a window is advertised only once it has doubled, "
                "and so on, as far\n * as here.\n */\n",
                [4],
            ),
        )

    def test_items_of_lists_keep_their_indentation(self):
        self.assertEqual(
            wrap(f"/// 1. {LONG}\n///    More.\n/// 2. Short.\n")[0],
            "/// 1. After it opens without an ACK, a window is advertised only once it has doubled, and so on, as\n"
            "///    far as here. More.\n/// 2. Short.\n",
        )

    def test_what_stays_as_it_is(self):
        for text in (
            # Nothing over 100 columns, however uneven the lines are.
            "// One.\n// Two.\n" + "// " + "a " * 48 + "\n",
            f"/// ```text\n/// {LONG}\n/// ```\n",
            f"///\n///     {LONG}\n",
            f"/// | {LONG} |\n",
            f"/// # {LONG}\n",
            f"/// [RFC 9293]: https://www.rfc-editor.org/{'x' * 100}\n",
            f"// a  b      {LONG}\n",
            f"/* ---- registration {'-' * 100} */\n",
            # After code, and in literals.
            f"let a = 1; // {LONG}\n",
            f"int a; /* {LONG} */\n",
            f'let a = "\n// {LONG}\n";\n',
            f'let a = r#"\n// "{LONG}"\n"#;\n',
        ):
            self.assertEqual(wrap(text), (text, []))

    def test_code_spans_and_links_are_not_broken(self):
        text = "// " + "a " * 47 + "`two words` [a link](https://example.org) b\n"
        made, _ = wrap(text)
        self.assertIn("\n// `two words` [a link](https://example.org) b\n", made)

    def test_no_line_begins_with_what_would_become_a_list_or_a_heading(self):
        for word in ("-", "+", "12.", "#4", "|"):
            made, _ = wrap("/// " + "abcdefg " * 12 + f"{word} b\n")
            self.assertEqual(len(made.splitlines()), 2)
            self.assertNotIn(f"\n/// {word}", made)

    def test_random_comments(self):
        """The words stay, lines are short, and a second run changes nothing."""
        for seed in range(300):
            chance = random.Random(seed)
            vocabulary = ["a", "window", "`cwnd`", "[`tcp_cleanup_rbuf`]", "-", "2.", "`a b c`", "receiver's", "end.", "|"]
            marker = chance.choice(["//", "///", "//!"])
            lines = []
            for _ in range(chance.randrange(1, 12)):
                line = " ".join(chance.choices(vocabulary, k=chance.randrange(0, 30)))
                lines.append((" " * 4 + marker + " " + chance.choice(["", "", "- "]) + line).rstrip())
            text = "\n".join(lines) + "\n"
            made, changed = wrap(text)
            said = [[word for word in each.split() if word != marker] for each in (text, made)]
            self.assertEqual(*said, seed)
            self.assertEqual(wrap(made), (made, []), seed)
            self.assertEqual(bool(changed), made != text, seed)


class Command(unittest.TestCase):
    def test_check_lists_offenders_and_writes_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "a.rs")
            path.write_text(f"// Short.\n\n// {LONG}\n")

            def run(*words):
                return subprocess.run([sys.executable, SCRIPT, *words, path], capture_output=True, text=True)

            checked = run("--check")
            self.assertEqual((checked.returncode, checked.stdout), (1, f"{path}:3: comment over 100 columns\n"))
            self.assertEqual(path.read_text(), f"// Short.\n\n// {LONG}\n")
            self.assertEqual(run().returncode, 0)
            checked = run("--check")
            self.assertEqual((checked.returncode, checked.stdout), (0, ""))


if __name__ == "__main__":
    unittest.main()
