"""What is IPython's own: magics, shell commands, display, history, silence."""

from __future__ import annotations

from tests.corpus.case import Case, case

HTML = "class H:\n    def _repr_html_(self): return '<table><tr><td>1</td></tr></table>'\n    def __repr__(self): return 'H'"

CASES: list[Case] = [
    case("show an int", "41 + 1"),
    case("show a string", "'text'", "print('text')\n'''a\nb'''"),
    case("show a list, a dict, a set", "[1, 2]", "{'a': [1]}", "{1}"),
    case("show a long list", "list(range(1200))"),
    case("show None", "None", "x = None\nx"),
    case("show html", HTML, "H()", "[H()]"),
    case(
        "show several formats",
        "class M:\n    def _repr_mimebundle_(self, include=None, exclude=None):\n        return {'text/plain': 'm', 'text/latex': '$m$', 'application/x-y': {'a': 1}}\nM()",
    ),
    case("show a type and a function", "def f(a, b=1): 'doc'\nf", "int", "len"),
    case("semicolon silences", "5;", "x = 3\nx;", "x"),
    case("semicolon and a comment", "5;  # quiet", "5  # loud;"),
    case("semicolons between", "a = 1; b = 2; a + b", "a; b;"),
    case("semicolon in a string", "'a;'"),
    case(
        "print kinds",
        "import sys\nprint('a', 'b', sep='-', end='!')\nprint()\nprint('err', file=sys.stderr, flush=True)\nsys.stdout.write('w\\n')",
    ),
    case("print between displays", "print('one')\ndisplay('two')\nprint('three')\n'four'"),
    case("display", "display(1, 'two', [3])\nx = display({'a': 1})\nx"),
    case(
        "display html and ids",
        HTML + "\nh = display(H(), display_id='mine')\nh.update('new')\nh.display_id",
    ),
    case(
        "display module functions",
        "from IPython.display import HTML, Markdown, display as show, clear_output\nshow(HTML('<b>x</b>'), Markdown('*y*'))\nclear_output()\nHTML('<i>z</i>')",
    ),
    case(
        "publish raw",
        "from IPython.display import publish_display_data\npublish_display_data({'text/plain': 'p', 'text/html': '<p>'}, {'text/html': {'k': 1}})",
    ),
    case("history of results", "1 + 1", "_ + 1", "_, __, _2, Out[1]", "sorted(Out)"),
    case("history in the same cell", "10", "a = _\nb = _ * 2\n(a, b)", "_[1] + _2[0]"),
    case("history not touched by silence", "7", "8;", "_"),
    case("underscore rebound", "_ = 'mine'\n_", "5", "_"),
    case("underscore in a loop", "3", "for _ in range(2): pass\n_", "_"),
    case("underscore unpacked", "4", "a, _ = (1, 2)", "_"),
    case("input history", "a = 1", "len(In), len(_ih)", "_i1[-5:], _i2[-4:]", "'a' in _ih[1]"),
    case("history indexing", "x = 5\nx", "Out[1] + _1", "_oh[2] is Out[2]"),
    case(
        "get_ipython",
        "ip = get_ipython()\nip.user_ns['x'] = 3\nx",
        "ip is get_ipython(), ip.user_ns is globals()",
        "del ip",
    ),
    case("run_cell inside", "get_ipython().run_cell('inner = 5')\ninner"),
    case("ex and ev", "get_ipython().ex('q = 2')\nget_ipython().ev('q + 1')"),
    case("push", "get_ipython().push({'pushed': [1]})\npushed.append(2)\npushed"),
    case("execution count", "get_ipython().execution_count", "get_ipython().execution_count"),
    case("shell command", "!echo hi"),
    case(
        "shell command with a variable",
        "word = 'there'",
        "!echo hi {word} $word\nword += '!'\n!echo {word}",
    ),
    case(
        "shell command reads a name of its cell",
        "for n in range(2):\n    m = n * 2\n    !echo n={n} m={m}\nm",
    ),
    case(
        "shell command in a function",
        "def say(what):\n    !echo {what}\nsay('inner')",
        "say('later')",
    ),
    case("shell assignment", "files = !printf 'a\\nb\\n'\nfiles", "files.n, len(files)"),
    case("shell exit code", "!exit 3\n_exit_code"),
    case("double bang", "!!echo one; echo two"),
    case("line magic", "%pwd\nx = 1", "%who_ls int"),
    case("line magic assignment", "here = %pwd\nimport os\nhere == os.getcwd()"),
    case("line magic in a block", "for i in range(2):\n    if i:\n        %who int\ni"),
    case("line magic in a function", "def f():\n    w = %who_ls int\n    return w\nk = 1\nf()"),
    case("line magic sees names of its cell", "a = 1", "bb = 2\n%who int\ndel a\n%who int"),
    case(
        "run_line_magic",
        "get_ipython().run_line_magic('who_ls', 'str')\ns = ''",
        "get_ipython().run_line_magic('who_ls', 'str')",
    ),
    case(
        "magic with a variable",
        "n = 3\n%env DYNAMO_CORPUS=$n\n%env DYNAMO_CORPUS",
        "import os\nos.environ.pop('DYNAMO_CORPUS')",
    ),
    case("unknown line magic", "x = 1\n%no_such_magic", "x", raises="UsageError"),
    case(
        "reset selective", "aa = 1\nab = 2\nb = 3\n%reset_selective -f ^a\nb", "'aa' in globals()"
    ),
    case("xdel", "big = [1]\nalias = big\n%xdel -n big\n'alias' in globals(), 'big' in globals()"),
    case("store and alias", "%alias greet echo hello\n%greet you"),
    case("precision", "%precision 3\nx = 1 / 3\nx", "%precision %r"),
    case("help", "len?", "import math\nmath.pi??"),
    case("help of own", "def f(a, b=2):\n    '''Says hello.'''\n    return a", "f?"),
    case(
        "help of own function made in the cell",
        "def f(a):\n    '''Mine.'''\n    return a\nf?\nx = 1\nx",
    ),
    case("help on a missing name", "nothing_here?"),
    case(
        "capture above",
        "%%capture out\n%%dynamo\nprint('inside')\ndisplay(1)\nx = 5\nx",
        "out.stdout, x",
        "out",
    ),
    case(
        "capture below",
        "%%dynamo\n%%capture out\nprint('inside')\ndisplay(1)\nx = 5\nx",
        "out.stdout, len(out.outputs), x",
        "out.show()",
    ),
    case(
        "capture above, an error inside",
        "%%capture out\n%%dynamo\nprint('a')\ny = 1\n1 / 0",
        "y, out.stdout",
        offset=2,
    ),
    case("capture with no names", "%%capture\n%%dynamo\nprint('lost')\nz = 1", "z"),
    case("time above", "%%time\n%%dynamo\ny = [1]\ny.append(2)", "y", clock=True),
    case("time below", "%%dynamo\n%%time\ny = 1 + 1\nprint(y)", "y", clock=True, offset=0),
    case("time a line", "x = 2\n%time y = x + 1\ny", clock=True),
    case("time a line's value", "x = 2\n%time x + 1", clock=True),
    case("timeit a line", "x = 2\n%timeit -n1 -r1 x + 1\nx", clock=True),
    case(
        "timeit keeps a result",
        "t = %timeit -n1 -r1 -o -q 1 + 1\nt.loops, t.repeat\ndel t",
        clock=True,
    ),
    case("shell cell below", "%%dynamo\n%%sh\necho from sh"),
    case(
        "writefile below",
        "import os, tempfile\np = os.path.join(tempfile.gettempdir(), 'dynamo_corpus_note.txt')",
        "%%dynamo\n%%writefile $p\nline one\nline two",
        "print(open(p).read())\nos.remove(p)",
    ),
    case("html below", "%%dynamo\n%%html\n<b>bold</b>"),
    case(
        "prun-free profile",
        "import cProfile\npr = cProfile.Profile()\npr.enable()\ns = sum(range(9))\npr.disable()\ndel pr\ns",
    ),
    case(
        "run under another cell magic of the user",
        "# plain\nfrom IPython.core.magic import register_cell_magic\n@register_cell_magic\ndef loud(line, cell):\n    print('>>', line)\n"
        "    get_ipython().run_cell(cell)\n    print('<<')",
        "%%loud now\n%%dynamo\nv = 3\nprint(v)",
        "v",
    ),
    case(
        "user line magic",
        "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef shout(line):\n    return line.upper()\ndel shout\nx = %shout abc\nx",
        "%shout def",
    ),
    case(
        "events",
        "seen = []\ndef hook(*a): seen.append(len(a))\nget_ipython().events.register('post_run_cell', hook)",
        "x = 1",
        "get_ipython().events.unregister('post_run_cell', hook)\nseen",
    ),
    case(
        "input transformer and ast transformer",
        "# plain\nimport ast\nclass Doubler(ast.NodeTransformer):\n    def visit_Constant(self, n):\n        if isinstance(n.value, int) and not isinstance(n.value, bool):\n"
        "            return ast.copy_location(ast.Constant(n.value * 2), n)\n        return n\nd = Doubler()\nget_ipython().ast_transformers.append(d)",
        "x = 21\nx",
        "# plain\nget_ipython().ast_transformers.remove(d)",
    ),
    case(
        "interactivity of all expressions",
        "# plain\nget_ipython().ast_node_interactivity = 'all'",
        "1\nx = 2\nx + 1\nx",
    ),
    case(
        "interactivity of last expression or assignment",
        "# plain\nget_ipython().ast_node_interactivity = 'last_expr_or_assign'",
        "1\nx = 2",
    ),
    case("interactivity none", "# plain\nget_ipython().ast_node_interactivity = 'none'", "1\n2"),
    case(
        "custom exception handler",
        "# plain\nclass Mine(Exception): pass\nget_ipython().set_custom_exc((Mine,), lambda self, et, ev, tb, tb_offset=None: print('handled', ev))",
        "a = 1\nraise Mine('x')",
        "a",
        raises="Mine",
    ),
    case("autocall and quotes", "# plain\ndef f(x): return x + 1", "%autocall 0\nf(1)"),
    case("pprint of nested data", "{'k' + str(i): list(range(i)) for i in range(12)}"),
    case("exit objects are left alone", "exit, quit\ntype(exit).__name__"),
]
