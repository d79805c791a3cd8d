"""An OpenID Connect issuer of the tests' own: a real server with discovery and keys, and the tokens it signs."""

import json
import threading
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "triggerctl"


class Issuer:
    """Serves between `with` and its end; `asked` counts what was asked for. Its keys can be rotated.

    `status` other than 200 is what it answers to everything; `keys_at` is where it says that its keys are.
    """

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.kid = ""
        self.status = 200
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                content = json.dumps(issuer.documents[self.path]).encode()
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.keys_at = f"{self.url}/keys"

    @property
    def documents(self) -> dict[str, Any]:
        public = [
            jwt.algorithms.ECAlgorithm.to_jwk(key.public_key(), as_dict=True) | {"kid": kid, "use": "sig"}
            for kid, key in self.keys.items()
        ]
        discovery = {"issuer": self.url, "jwks_uri": self.keys_at}
        return {"/.well-known/openid-configuration": discovery, "/keys": {"keys": public}}

    def rotate(self, kid: str) -> None:
        """Only the new key counts from now on."""
        self.kid, self.keys = kid, {kid: ec.generate_private_key(ec.SECP256R1())}

    def token(self, now: datetime, *, headers: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """Of ann, good for an hour, unless the claims say otherwise; None takes one out."""
        usual = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + timedelta(hours=1)}
        said = {name: value for name, value in (usual | claims).items() if value is not None}
        stated = {name: value for name, value in {"kid": self.kid, **(headers or {})}.items() if value is not None}
        return jwt.encode(said, key or self.keys[self.kid], algorithm=stated.pop("alg", "ES256"), headers=stated)

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
