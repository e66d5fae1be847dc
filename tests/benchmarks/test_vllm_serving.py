"""Starting and stopping servers, with a small program in vLLM's place: what is real about vLLM is tested in tests/vllm."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.vllm import environment as vllm_environment
from benchmarks.vllm import serving as vllm_serving
from tests.patience import wait_for

SERVER = f"""#!{sys.executable}
import http.server, subprocess, sys
port = int(sys.argv[sys.argv.index("--port") + 1])
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[2] + "/child", "w").write(str(child.pid))
PAGES = {{
    "/health": "",
    "/metrics": 'vllm:num_requests_running{{engine="0"}} 1.0\\nvllm:num_requests_running{{engine="1"}} 2\\n# HELP x y\\n',
    "/v1/models": '{{"data": [{{"id": "one"}}]}}',
}}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(PAGES[self.path].encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""


def environment(folder: Path, program: str) -> Path:
    (folder / "bin").mkdir(parents=True)
    command = vllm_environment.command(folder)
    command.write_text(program)
    command.chmod(0o755)
    return folder


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_what_was_started_serves_is_read_and_leaves_no_process_behind(tmp_path: Path) -> None:
    fake = environment(tmp_path / "env", SERVER)
    with vllm_serving.serving(fake, {"one": tmp_path}, tmp_path) as servers:
        served = servers["one"]
        assert served.is_well() and served.running() == 3
        assert vllm_serving.remote(served.url + "/").model == "one"
        child = int((tmp_path / "child").read_text())
        assert is_alive(child)
    assert not served.is_well()
    wait_for(lambda: not is_alive(child), "the end of its child")
