"""The smallest service that can be watched: a model behind HTTP, on the GPU where there is one."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODEL = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 1)).to(DEVICE).eval()


class Handler(BaseHTTPRequestHandler):
    """Answers every GET with one score."""

    def do_GET(self) -> None:
        """Run the model once."""
        with torch.inference_mode():
            score = float(MODEL(torch.rand(1, 256, device=DEVICE)))
        body = f"{score:.6f}\n".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    ThreadingHTTPServer(("0.0.0.0", 8000), Handler).serve_forever()  # noqa: S104 - inside a container
