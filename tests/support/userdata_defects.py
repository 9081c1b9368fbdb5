"""customData documents with the mistakes that people make, for the comparison with cloud-init."""

from __future__ import annotations

from support.userdata_trial import Trial, config

FILE = "write_files: [{path: /x, content: x}]\n"
STRICT = "a document with an error runs nothing"
DEFECTS = (
    config("an unknown key", f"package: [hello]\n{FILE}", refused=STRICT),
    config("a tab", "write_files:\n-\tpath: /x\n", refused=STRICT),
    config("a key twice", f"{FILE}write_files: [{{path: /y, content: y}}]\n", refused=STRICT),
    config("an item that is split in two", "write_files:\n- {path: /x}\n- owner: root:root\n", refused=STRICT),
    config("a mapping among commands", "runcmd:\n- echo a: b > /x\n", refused=STRICT),
    config("an item that is indented too far", "runcmd:\n- touch /x\n - touch /y\n", refused=STRICT),
    config("text for a list", f"runcmd: touch /y\n{FILE}", refused=STRICT),
    config("null for a list", f"packages:\n{FILE}"),
    config("a decimal mode", "write_files: [{path: /x, content: x, permissions: 644}]\n", refused=STRICT),
    Trial(name="no header", data=FILE.encode(), refused=STRICT),
    Trial(
        name="a byte-order mark",
        data=b"\xef\xbb\xbf#cloud-config\n" + FILE.encode(),
        differs={"x": "a byte-order mark is removed; cloud-init takes the document for an unknown format"},
    ),
    Trial(name="Windows line ends", data=b"#cloud-config\r\nwrite_files:\r\n- path: /x\r\n  content: |\r\n    a\r\n"),
    config(
        "an unknown user owns a file",
        "write_files: [{path: /x, owner: 'ghost:ghost', content: x}]\n",
        differs={"x": "nothing is written for an owner that does not exist"},
    ),
)
