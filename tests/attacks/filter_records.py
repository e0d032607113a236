"""The file of a filter function records by itself when it is imported, as a program's own module does."""

import os
import subprocess
import sys
from pathlib import Path

folder = Path(sys.argv[1])
(folder / "chosen.py").write_text(
    "import tensortap as tap\nfrom torch import nn\n"
    "own = tap.record(nn.Linear(2, 2), 'inner', report=False)\n"
    "def wanted(name, module):\n    return True\n"
)
(folder / "program.py").write_text(
    "import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\nprint(model(torch.ones(1, 2)).shape)\n"
)
ttap = os.environ.get("TTAP_BIN", "ttap")
command = [ttap, "run", "-o", "run", "--filter-fn", "chosen.py:wanted", "--", sys.executable, "program.py"]
result = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)
assert result.returncode == 0 and "torch.Size([1, 2])" in result.stdout, result.stderr[-800:]
