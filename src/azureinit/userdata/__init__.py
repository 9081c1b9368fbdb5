"""customData in the formats that cloud-init reads: bytes in, values out. Pure: nothing is run and nothing is fetched.

values       Finding, Place, Part, Include, Userdata; the limits of every parser
node         a YAML value that keeps its line and column
packages     PyYAML and jinja2, where they are installed
yamltext     YAML text -> Node
formats      which kind of document a text is
decoding     gzip, base64 and quoted-printable, bounded
mime         a MIME message -> its headers and bodies
include      an include document -> URLs
archive      a cloud-config-archive -> its entries
parts        customData -> its parts
merge        several cloud-config documents -> one, by cloud-init's rules
kinds        the kinds of values that a key may have
shapes       the values of single keys
keys         KEYS: a row for each key of a cloud-config
check        a value against its kind
validate     customData -> everything that is wrong with it
json_schema  KEYS as JSON Schema, and as a table for docs/userdata.md
"""
