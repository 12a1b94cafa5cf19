"""Standard Webhooks signatures: every attempt signed anew with all valid secrets; verified over the raw body before it is parsed.

Rotation: give the new secret and the old one; both sign, and either verifies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from standardwebhooks import Webhook, WebhookVerificationError

from ingest.clock import NS, datetime_of


def sign(secrets: Sequence[str], webhook_id: str, wall_ns: int, body: bytes) -> dict[str, str]:
    """Give the three headers for one attempt at wall time `wall_ns`."""
    at = datetime_of(wall_ns)
    signatures = [Webhook(secret).sign(webhook_id, at, body.decode()) for secret in secrets]
    return {"webhook-id": webhook_id, "webhook-timestamp": str(wall_ns // NS), "webhook-signature": " ".join(signatures)}


def signer(secrets: Mapping[str, Sequence[str]], headers: Mapping[str, str], body: bytes) -> str | None:
    """Tell whose secret signed the body, within five minutes of now; None where nobody's did."""
    for name, known in secrets.items():
        if any(_is_signed(secret, headers, body) for secret in known):
            return name
    return None


def _is_signed(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    try:
        Webhook(secret).verify(body, dict(headers), json_parse=False)
    except (WebhookVerificationError, ValueError):  # ValueError: a header or body that is no signature at all
        return False
    return True
