"""OpenID Connect issuer for tests: a real HTTP server with discovery and keys, and the tokens it signs."""

import json
import threading
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import ec

AUDIENCE = "triggerctl"


class Issuer:
    """Issuer that serves while its `with` block lasts; `requests` lists the paths requested. Its keys can be rotated.

    `status` is the status of every answer; `keys_at` is the address of the keys in the discovery document.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.keys: dict[str, ec.EllipticCurvePrivateKey] = {}
        self.kid = ""
        self.status = 200
        self.rotate("first")
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.requests.append(self.path)
                content = json.dumps(issuer.documents[self.path]).encode()
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Log nothing."""

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
        """Replace all keys by a new one."""
        self.kid, self.keys = kid, {kid: ec.generate_private_key(ec.SECP256R1())}

    def token(self, now: datetime, *, headers: dict[str, Any] | None = None, key: Any = None, **claims: Any) -> str:
        """Return a token of ann that expires in an hour; `claims` and `headers` override it, None removes a claim."""
        default_claims = {"iss": self.url, "aud": AUDIENCE, "sub": "ann", "iat": now, "exp": now + timedelta(hours=1)}
        sent_claims = {name: value for name, value in (default_claims | claims).items() if value is not None}
        sent_headers = {
            name: value for name, value in {"kid": self.kid, **(headers or {})}.items() if value is not None
        }
        return jwt.encode(
            sent_claims,
            key or self.keys[self.kid],
            algorithm=sent_headers.pop("alg", "ES256"),
            headers=sent_headers,
        )

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
