"""Products in PyTorch."""


class Arithmetic:
    def __init__(self, session):
        self.session, self.torch = session, session.torch
        self.device = "cuda" if session.config["device"]["kind"] == "gpu" else "cpu"

    def product(self, size):
        torch = self.torch
        left, right = (torch.rand((size, size), device=self.device) for _ in range(2))
        out = torch.empty((size, size), device=self.device)

        def run():
            with torch.no_grad():
                torch.mm(left, right, out=out)
            self.session.finish_device()

        return run
