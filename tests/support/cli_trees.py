"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

SRC = Path(__file__).parents[2] / "src"
ID = "c0ffee00-1111-2222-3333-444444444444"


# No source answers, and timeouts are short.
ALONE = f"""\
[platform]
require_azure = false
vm_id = "{ID}"
[imds]
endpoint = "http://127.0.0.1:9"
total_retry_timeout_secs = 0.1
[wireserver]
health_endpoint = "http://127.0.0.1:9/"
total_retry_timeout_secs = 0.1
[provisioning_media]
wait_secs = 0.1
"""
