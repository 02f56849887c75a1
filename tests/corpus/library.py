"""Imports, introspection, text layout, and the parts of the library that look at the frame."""

from __future__ import annotations

from tests.corpus.case import Case, case

CASES: list[Case] = [
    case(
        "imports",
        "import os, sys as system\nfrom math import pi, floor as fl\nimport os.path as osp\nfl(pi), osp is os.path",
    ),
    case(
        "dotted import",
        "import xml.dom.minidom\nxml.dom.minidom.parseString('<a/>').documentElement.tagName",
    ),
    case(
        "star import",
        "from math import *\nfloor(pi), sorted(n for n in globals() if n.startswith('sin'))",
        "cos(0)",
    ),
    case(
        "star import shadows",
        "pow = 'mine'\nfrom math import *\npow(2, 3)",
        "e = 1\nfrom math import *\nround(e, 3)",
    ),
    case(
        "star import between statements",
        "x = 4\nfrom math import *\ny = sqrt(x)\ndef f(): return sqrt(x)\ny, f()",
    ),
    case(
        "star import, used by a comprehension",
        "from itertools import *\n[list(islice(count(i), 2)) for i in range(2)]",
    ),
    case(
        "import in try",
        "try:\n    import no_such_thing as nst\nexcept ImportError:\n    nst = None\nelse:\n    found = 1\nnst is None",
    ),
    case(
        "import in a function",
        "def f():\n    import string\n    return string.digits\nf(), 'string' in globals()",
    ),
    case(
        "import in if and for",
        "for name in ('math', 'json'):\n    m = __import__(name)\nif m:\n    import json as j\nm is j",
    ),
    case("import, use, rebind", "import math\nx = math.pi\nmath = 3\nx > math"),
    case("import deleted", "import math\ny = math.pi\ndel math\ny"),
    case(
        "future annotations",
        "from __future__ import annotations\ndef f(a: Nope) -> Nope2: ...\nf.__annotations__",
        "def g(a: Nope): ...\ng.__annotations__",
    ),
    case(
        "future in a plain cell stays on",
        "# plain\nfrom __future__ import annotations",
        "x: Missing = 1\n__annotations__",
        "def h(q: Missing): pass\nh.__annotations__",
    ),
    case(
        "future from a cell under the magic",
        "from __future__ import annotations\nx: Missing = 1",
        "# plain\ny: Missing = 2\n__annotations__",
    ),
    case("future after a string", "'''Doc.'''\nfrom __future__ import division\n1 / 2"),
    case(
        "locals and globals",
        "a = 1",
        "locals() is globals(), vars() is globals(), 'a' in locals()",
        "b = 2\n'b' in locals(), 'b' in globals()",
    ),
    case("locals written", "locals()['made'] = 5\nmade", "vars()['other'] = made + 1\nother"),
    case("globals written and read", "globals()['g1'] = 1\ng1 += 1\nglobals()['g1'] *= 10\ng1"),
    case("globals read by name", "x = 1\ny = globals()['x'] + 1\nglobals()['x'] = 50\nx + y"),
    case("globals popped", "x = 1\nglobals().pop('x')\n'x' in globals()", "x", raises="NameError"),
    case(
        "names in dir",
        "zz = 1\n[n for n in dir() if n.startswith('z')]",
        "zy = 1\nsorted(n for n in dir() if n.startswith('z'))",
    ),
    case(
        "names kept in order",
        "z = 1\na = 2\nm = 3\n[k for k in globals() if k in 'zam']",
        "a = 5\nb = 1\n[k for k in globals() if k in 'zamb']",
    ),
    case(
        "whole namespace seen from a cell",
        "p = 1\nq = 2\nsorted(k for k in globals() if not k.startswith('_'))",
        "sorted(k for k in locals() if not k.startswith('__') )",
    ),
    case("locals in a function", "def f(a):\n    b = 2\n    return locals()\nf(1)"),
    case(
        "locals in a comprehension and a class",
        "v = 1\nclass A:\n    w = 2\n    n = sorted(k for k in locals() if k in 'vw')\nA.n",
    ),
    case("exec binds", "exec('u = 1\\nv = u + 1')\nu + v", "exec('u += 5')\nu"),
    case("exec reads a name of its cell", "k = 3\nexec('kk = k * 2')\nk = kk\nk"),
    case(
        "exec with its own namespace",
        "d = {}\nexec('a = 1\\ndef f(): return a', d)\nd['f'](), 'a' in globals()",
    ),
    case("eval", "x = 4\neval('x * 2'), eval('[x for _ in range(2)]'), eval('x', {'x': 9})"),
    case("compile", "c = compile('y = 3\\ny', 'mine', 'exec')\nexec(c)\ny", "c.co_filename"),
    case(
        "frames",
        "import sys\nf = sys._getframe()\nsame = f.f_globals is globals(), f.f_locals is locals()\nname = f.f_code.co_name\ndel f\nsame, name",
    ),
    case(
        "line numbers in the cell",
        "import inspect\na = -inspect.currentframe().f_lineno\n\na += inspect.currentframe().f_lineno\na",
    ),
    case(
        "caller's names",
        "import sys\ndef peek():\n    f = sys._getframe(1)\n    return f.f_locals.get('secret'), f.f_globals.get('secret'), f.f_code.co_name\nsecret = 42\npeek()",
    ),
    case(
        "caller's names in a loop",
        "import inspect\ndef who():\n    return sorted(k for k in inspect.stack()[1].frame.f_locals if k.startswith('item'))\nfor item in range(2):\n    item2 = who()\nitem2",
    ),
    case("file name", "'__file__' in globals()", "__file__", raises="NameError"),
    case(
        "main guard",
        "def main():\n    return 'ran'\nif __name__ == '__main__':\n    out = main()\nout",
    ),
    case(
        "main module",
        "import sys\nx = 3\nsys.modules['__main__'].x",
        "import __main__\n__main__.y = 7\ny",
    ),
    case(
        "module name of things",
        "def f(): pass\nclass C: pass\nf.__module__, C.__module__, (lambda: 0).__module__",
    ),
    case(
        "builtins",
        "import builtins\nbuiltins.corpus_extra = 5\ncorpus_extra",
        "del builtins.corpus_extra\n'corpus_extra' in globals()",
    ),
    case(
        "id and type", "x = []\ny = x\nid(x) == id(y), type(x), isinstance(x, list), callable(len)"
    ),
    case(
        "warnings",
        "import warnings\nwarnings.warn('careful')\nx = 1",
        "def f():\n    warnings.warn('deep', DeprecationWarning, stacklevel=2)\nf()\nx",
    ),
    case("warning repeated", "import warnings\nfor i in range(3):\n    warnings.warn('same')\ni"),
    case(
        "warnings as errors",
        "import warnings\nwith warnings.catch_warnings():\n    warnings.simplefilter('error')\n    a = 1\n    warnings.warn('now an error')",
        "a",
        raises="UserWarning",
    ),
    case(
        "warnings recorded",
        "import warnings\nwith warnings.catch_warnings(record=True) as w:\n    warnings.simplefilter('always')\n    warnings.warn('kept')\nlen(w), str(w[0].message), w[0].lineno > 0\ndel w",
    ),
    case("syntax warning", "x = 1\nx is 1"),
    case(
        "logging",
        "import logging, sys\nlog = logging.Logger('corpus')\nh = logging.StreamHandler(sys.stderr)\nh.setFormatter(logging.Formatter('%(levelname)s %(funcName)s %(message)s'))\nlog.addHandler(h)\n"
        "log.warning('first %d', 1)\ndef f(): log.error('second')\nf()\ndel h, log",
    ),
    case("random", "import random\na = random.random()\nb = random.sample(range(100), 3)\na, b"),
    case(
        "random seeded in the cell",
        "import random\nrandom.seed(5)\n[random.randint(0, 9) for _ in range(5)]",
        "r = random.Random(3)\nr.random()",
    ),
    case(
        "numpy",
        "import numpy as np\na = np.arange(6).reshape(2, 3)\nb = a.T\nb[0, 0] = 9\na, a.sum(axis=0)",
        "a @ b",
    ),
    case(
        "numpy random",
        "import numpy as np\nx = np.random.rand(3)\nnp.random.seed(1)\ny = np.random.randn(2)\nx, y",
        "rng = np.random.default_rng(0)\nz = rng.normal(size=2)\ndel rng",
    ),
    case("numpy error", "import numpy as np\na = np.ones(3)\na + np.ones(4)", raises="ValueError"),
    case("numpy warning", "import numpy as np\nnp.array([1.0]) / 0"),
    case(
        "numpy in place",
        "import numpy as np\na = np.zeros(4)\nv = a[1:3]\nv += 1\na[a > 0] *= 5\nb = a\na",
        "b is a, v.base is a",
    ),
    case(
        "threads read globals",
        "import threading\nout = []\ndef work(i): out.append((i, factor))\nfactor = 2\nts = [threading.Thread(target=work, args=(i,)) for i in range(3)]\n"
        "for t in ts:\n    t.start()\n    t.join()\n    factor += 1\ndel t, ts\nout",
    ),
    case(
        "thread pool",
        "from concurrent.futures import ThreadPoolExecutor\nk = 3\nwith ThreadPoolExecutor(2) as pool:\n    r = list(pool.map(lambda v: v * k, range(4)))\ndel pool\nr",
    ),
    case(
        "thread writes a global",
        "import threading\nstate = 'before'\ndef w():\n    global state\n    state = 'after'\nt = threading.Thread(target=w)\nt.start()\nt.join()\ns = state\ndel t\ns",
    ),
    case(
        "operating system",
        "import os\nold = os.getcwd()\nos.chdir('/')\nhere = os.getcwd()\nos.chdir(old)\ndel old\nhere",
    ),
    case("comments and code", "# leading\nx = 1  # trailing\n# middle\n\ny = 2\n# end"),
    case("blank lines around", "\n\n\nx = 1\n\n\nx\n\n", verbatim=True),
    case("blank line with blanks", "x = 1\n   \n\t\ny = x\n   ", verbatim=True),
    case("tabs", "for i in range(2):\n\tif i:\n\t\tprint('tab', i)\nx = '\t'\nx"),
    case("indented cell", "    x = 1\n    y = 2\n    x + y", verbatim=True),
    case(
        "line continuation",
        "x = 1 + \\\n    2 + \\\n    3\nif x == 6 and \\\n   True:\n    y = 'joined'\ny",
    ),
    case(
        "multi-line strings",
        "s = '''first\n    indented\n\nlast'''\nt = \"\"\"a\n!not a command\n%not a magic\n\"\"\"\ns, t",
    ),
    case("percent and bang inside text", "a = 7\nb = a %3\nc = '!x'\nd = (a\n %2)\na, b, c, d"),
    case(
        "non-ascii text",
        "s = 'naïve – 日本語 – 🎉'\nprint(s)\nlen(s), s[-1]",
        "1 / 0  # ünï",
        raises="ZeroDivisionError",
    ),
    case("prompts are stripped", ">>> x = 3\n>>> x + 1", "In [1]: y = 2\n   ...: y"),
    case(
        "semicolon lines and one-liners",
        "a = 1; b = 2; print(a, b)\nif a: c = 3; d = 4\nwhile False: pass\nc + d",
    ),
    case("windows line ends", "x = 1\r\ny = 2\r\nx + y", verbatim=True),
    case("form feed and trailing backslash", "x = 1\n\x0cy = 2\nx + y", verbatim=True),
    case("no newline, one token", "x=5", "x"),
    case("same cell twice", "n = 0", "n += 1\nn", "n += 1\nn", "n += 1\nn"),
    case(
        "same cell twice, other types",
        "x = 2",
        "y = x * 2\ny",
        "# plain\nx = 'ab'",
        "y = x * 2\ny",
        "# plain\nx = [1]",
        "y = x * 2\ny",
    ),
    case("very long line", "total = " + " + ".join(str(i) for i in range(400)) + "\ntotal"),
    case("type comments and ignored markers", "x = []  # type: list[int]\nx.append(1)  # noqa\nx"),
    case(
        "interning and identity",
        "a = 'text'\nb = 'te' + 'xt'\na == b, (a is a), 256 is 256 if False else None",
    ),
    case(
        "time",
        "import time\nt = time.perf_counter()\ntime.sleep(0.001)\nd = time.perf_counter() - t\nok = d > 0\ndel t, d\nok",
    ),
    case("garbage", "import gc\nclass N: pass\na = N(); a.me = a\ndel a\ngc.collect() >= 0"),
    case("tracing left alone", "import sys\nsys.gettrace() is None, sys.getprofile() is None"),
    case(
        "subprocess",
        "import subprocess, sys\nsubprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True).stdout",
    ),
]
