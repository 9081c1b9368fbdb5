"""Image policies: restrictions of logins that an image may have, and the result that each must have.

ready: nothing is said, and every credential given works. both: nothing is said, and key and password work together.
note: Ready, one of the credentials is said not to work, the other works. doubt: Ready with a warning, and a login that
may or may not work (`works` tells here). failed: the failure names file, line and directive, and no login works.
"""

from __future__ import annotations

from dataclasses import dataclass

from support.policy_machine import Policy

READY, BOTH, NOTE, DOUBT, FAILED = "ready", "both", "note", "doubt", "failed"
FILE = "/etc/ssh/sshd_config.d/50-policy.conf"
ADD = "useradd -m -s /bin/bash azureuser"


@dataclass(frozen=True)
class Row:
    name: str
    policy: Policy
    outcome: str
    says: str = ""  # a part of the failure's or the warning's text
    works: bool | None = None
    reason: str = "the admin cannot log in"


def config(text: str) -> str:
    return f"cat > {FILE} <<'EOF'\n{text}\nEOF\n"


def sshd(name: str, text: str, outcome: str, says: str = "", *, works: bool | None = None, **more: object) -> Row:
    before = str(more.pop("setup", ""))
    return Row(name, Policy(setup=before + "\n" + config(text), **more), outcome, says, works)  # type: ignore[arg-type]


def account(name: str, script: str, outcome: str, says: str = "", *, works: bool | None = None, **more: object) -> Row:
    return Row(name, Policy(setup=f"{ADD}\n{script}", **more), outcome, says, works)  # type: ignore[arg-type]


def pam(line: str) -> str:
    return f"sed -i '1i {line}' /etc/pam.d/sshd"


def key_line(options: str) -> str:
    """The given key is in the image already, with options."""
    return (
        f"mkdir /home/azureuser/.ssh; echo '{options}' \"$(cat /given.pub)\" > /home/azureuser/.ssh/authorized_keys; "
        "chown -R azureuser: /home/azureuser/.ssh"
    )


NOLOGIN_LINK = "ln -s /usr/sbin/nologin /bin/mysh"
LINE1 = f"{FILE} line 1:"
ROWS = (
    Row("nothing", Policy(), READY),
    Row("nothing, password", Policy(password=True, key=False), READY),
    Row("nothing, both", Policy(password=True), READY),
    # ---- Allow and Deny
    sshd("AllowUsers another", "AllowUsers alice", FAILED, f"{LINE1} 'AllowUsers alice'"),
    sshd("AllowUsers another, both", "AllowUsers alice", FAILED, LINE1, password=True),
    sshd("AllowUsers several others", "AllowUsers alice\nAllowUsers bob*\nAllowUsers azureuser2", FAILED, LINE1),
    sshd("AllowUsers this one", "AllowUsers alice azureuser", READY),
    sshd("AllowUsers added to", "AllowUsers alice\nAllowUsers azure*", READY),
    sshd("AllowUsers wildcard", "AllowUsers *user", READY),
    sshd("AllowUsers negated is literal", "AllowUsers !azureuser *", READY),
    sshd(
        "AllowUsers from a private network", "AllowUsers azureuser@10.0.0.0/8", DOUBT, "from some addresses", works=True
    ),
    sshd("AllowUsers from elsewhere", "AllowUsers azureuser@192.0.2.0/24", DOUBT, "from some addresses", works=False),
    sshd("AllowUsers others from networks", "AllowUsers alice@10.0.0.0/8 bob@192.168.0.0/16", FAILED, LINE1),
    sshd("DenyUsers from two networks", "DenyUsers *@203.* *@10.*", DOUBT, "from some addresses", works=False),
    sshd("AllowUsers from anywhere", "AllowUsers azureuser@*", READY),
    sshd("AllowUsers from a name", "AllowUsers azureuser@*.example.org", FAILED, LINE1),
    sshd("DenyUsers this one", "DenyUsers alice azureuser", FAILED, "DenyUsers alice azureuser"),
    sshd("DenyUsers pattern", "DenyUsers az???user", FAILED, "DenyUsers"),
    sshd("DenyUsers another", "DenyUsers alice azureuser2", READY),
    sshd("DenyUsers beats AllowUsers", "AllowUsers azureuser\nDenyUsers azureuser", FAILED, f"{FILE} line 2:"),
    sshd("DenyUsers from a network", "DenyUsers azureuser@10.0.0.0/8", DOUBT, "from some", works=False),
    sshd("AllowGroups another", "AllowGroups operators", FAILED, "AllowGroups operators", setup="groupadd operators"),
    sshd("AllowGroups primary", "AllowGroups azureuser", READY),
    sshd("AllowGroups sudo", "AllowGroups sudo", READY),
    sshd(
        "AllowGroups by configuration",
        "AllowGroups operators",
        READY,
        setup="groupadd operators",
        config={"user": {"groups": ["operators"]}},
    ),
    sshd("DenyGroups primary", "DenyGroups azureuser", FAILED, "DenyGroups azureuser"),
    sshd("DenyGroups sudo", "DenyGroups s?do", FAILED, "DenyGroups s?do"),
    sshd("DenyGroups another", "DenyGroups nogroup", READY),
    # ---- Match
    sshd("Match User refuses keys", "Match User azureuser\n  PubkeyAuthentication no", FAILED, "below 'Match User"),
    sshd("Match another", "Match User alice\n  PubkeyAuthentication no", READY),
    sshd("Match negated", "Match User *,!azureuser\n  PubkeyAuthentication no", READY),
    sshd("Match Group sudo refuses", "Match Group sudo\n  DenyUsers *", FAILED, "Match Group sudo"),
    sshd("Match rescues", "AllowUsers alice\nMatch User azure*\n  AllowUsers azureuser", READY),
    sshd("Match all refuses", "Match all\n  PubkeyAuthentication no", FAILED, "PubkeyAuthentication no"),
    sshd("Match Address refuses some", "Match Address 192.0.2.0/24\n  DenyUsers *", DOUBT, "from some", works=True),
    sshd(
        "Match Address allows some", "AllowUsers alice\nMatch Address 192.0.2.0/24\n  AllowUsers *", DOUBT, works=False
    ),
    sshd(
        "Match another keys file",
        "Match User azureuser\n  AuthorizedKeysFile /etc/ssh/azureuser.keys",
        READY,
    ),
    sshd(
        "Match shared keys file",
        "Match User azure*\n  AuthorizedKeysFile /etc/ssh/shared",
        FAILED,
        "AuthorizedKeysFile",
    ),
    sshd(
        "Match shared with everyone",
        "AuthorizedKeysFile /etc/ssh/all\nMatch User azureuser\n  AuthorizedKeysFile /etc/ssh/all",
        FAILED,
        "AuthorizedKeysFile",
    ),
    sshd("Match about other things", "AllowUsers alice\nMatch LocalAddress 10.9.9.9\n  Banner none", FAILED, LINE1),
    # ---- keys
    sshd("no keys", "PubkeyAuthentication no", FAILED, f"{LINE1} 'PubkeyAuthentication no'"),
    sshd("no keys, password too", "PubkeyAuthentication no", NOTE, "key that was given", password=True),
    sshd("no keys, password alone", "PubkeyAuthentication no", READY, password=True, key=False),
    sshd("algorithms without this one", "PubkeyAcceptedAlgorithms rsa-sha2-512", FAILED, "PubkeyAcceptedAlgorithms"),
    sshd("algorithms removed", "PubkeyAcceptedAlgorithms -ssh-ed25519*", FAILED, "PubkeyAcceptedAlgorithms"),
    sshd("algorithms with this one", "PubkeyAcceptedAlgorithms ssh-ed*", READY),
    sshd("algorithms added", "PubkeyAcceptedAlgorithms +ssh-rsa", READY),
    sshd("old name", "PubkeyAcceptedKeyTypes ecdsa-sha2-nistp256", FAILED, "PubkeyAcceptedKeyTypes"),
    sshd("RSA too short", "RequiredRSASize 4096", FAILED, "RequiredRSASize", key_type="rsa", key_bits=2048),
    sshd("RSA long enough", "RequiredRSASize 2048", READY, key_type="rsa", key_bits=2048),
    sshd("RSA with SHA-1 alone", "PubkeyAcceptedAlgorithms ssh-rsa", FAILED, LINE1, key_type="rsa", key_bits=2048),
    sshd("revoked", "RevokedKeys /given.pub", FAILED, "RevokedKeys"),
    sshd("revocation list missing", "RevokedKeys /etc/ssh/none.krl", FAILED, "RevokedKeys"),
    sshd("another key revoked", "RevokedKeys /etc/ssh/revoked", READY, setup=": > /etc/ssh/revoked"),
    sshd("no key files", "AuthorizedKeysFile none", FAILED, "AuthorizedKeysFile none"),
    sshd("shared key file", "AuthorizedKeysFile /etc/ssh/keys", FAILED, "AuthorizedKeysFile /etc/ssh/keys"),
    sshd("shared, then own", "AuthorizedKeysFile /etc/ssh/keys %h/.ssh/authorized_keys2", READY),
    sshd("own by number", "AuthorizedKeysFile /etc/ssh/keys/%U", READY),
    sshd(
        "keys by a command",
        "AuthorizedKeysFile none\nAuthorizedKeysCommand /bin/true\nAuthorizedKeysCommandUser nobody",
        DOUBT,
        "AuthorizedKeysFile",
        works=False,
    ),
    sshd(
        "a closed directory, then an open one",
        "AuthorizedKeysFile /etc/ssh/closed/%u /etc/ssh/open/%u",
        READY,
        setup="mkdir -m 700 /etc/ssh/closed",
    ),
    # ---- methods
    sshd("two keys", "AuthenticationMethods publickey,publickey", FAILED, "more keys than were given"),
    sshd("key, or key twice", "AuthenticationMethods publickey,publickey publickey", READY),
    sshd("key alone", "AuthenticationMethods publickey", READY),
    sshd("any method", "AuthenticationMethods any", READY),
    sshd("key and password, key given", "AuthenticationMethods publickey,password", FAILED, f"{LINE1} 'Authentication"),
    sshd("key and PAM, key given", "AuthenticationMethods publickey,keyboard-interactive:pam", FAILED, LINE1),
    sshd(
        "key and password, not required",
        "AuthenticationMethods publickey,password",
        DOUBT,
        LINE1,
        works=False,
        required="false",
    ),
    sshd(
        "key and password, customData may mend it",
        "AuthenticationMethods publickey,password",
        DOUBT,
        "customData",
        works=False,
        custom_data="#!/bin/sh\n",
    ),
    Row(
        "password demanded, key given",
        Policy(setup=config("AuthenticationMethods password")),
        FAILED,
        f"{LINE1} 'AuthenticationMethods password'",
        reason="failed to update sshd config",
    ),
    sshd("key and password, both given", "AuthenticationMethods publickey,password", BOTH, password=True),
    sshd("key demanded, both given", "AuthenticationMethods publickey", NOTE, "the password that", password=True),
    sshd("password demanded, both given", "AuthenticationMethods password", NOTE, "the key that", password=True),
    sshd("hosts demanded", "AuthenticationMethods hostbased\nHostbasedAuthentication yes", FAILED, "hostbased"),
    sshd("Match LocalPort", "Match LocalPort 22\n  DenyUsers *", FAILED, "Match LocalPort 22"),
    sshd("Match another LocalPort", "Match LocalPort 2222\n  DenyUsers *", READY),
    sshd("Match one of two ports", "Port 2222\nPort 22\nMatch LocalPort 2222\n  DenyUsers *", DOUBT, works=True),
    sshd("Match LocalAddress", "Match LocalAddress 10.9.9.9\n  DenyUsers *", DOUBT, "DenyUsers", works=True),
    sshd("Match twice", "Match User azureuser Address *\n  AllowUsers alice", FAILED, "AllowUsers alice"),
    sshd("DenyUsers from everywhere", "DenyUsers azureuser@*", FAILED, "DenyUsers azureuser@*"),
    sshd("AllowUsers in quotes", 'AllowUsers "alice" "azureuser"', READY),
    sshd("AllowUsers with =", "AllowUsers=alice", FAILED, "AllowUsers=alice"),
    sshd(
        "AllowUsers far away",
        "Include /etc/ssh/more/*",
        FAILED,
        "/etc/ssh/more/b line 2: 'allowusers bob'",
        setup="mkdir /etc/ssh/more; printf '#\\nallowusers bob\\n' > /etc/ssh/more/b; : > /etc/ssh/more/a",
    ),
    sshd("host key algorithms of RSA", "HostKeyAlgorithms rsa-sha2-512", READY),
    sshd("host key algorithms without two", "HostKeyAlgorithms -ssh-ed25519*,ecdsa*", READY),
    sshd("a CA", "TrustedUserCAKeys /given.pub", READY),
    sshd("a short grace time", "LoginGraceTime 5\nMaxStartups 1", READY),
    # ---- what clients offer, and where sshd listens
    sshd("old host key algorithms", "HostKeyAlgorithms ssh-rsa", DOUBT, "HostKeyAlgorithms ssh-rsa", works=False),
    sshd("old ciphers", "Ciphers 3des-cbc", DOUBT, f"{LINE1} 'Ciphers", works=False),
    sshd("old key exchange", "KexAlgorithms diffie-hellman-group1-sha1", DOUBT, "KexAlgorithms", works=False),
    sshd(
        "a hardened list",
        "Ciphers aes256-ctr\nKexAlgorithms curve25519-sha256\nMACs hmac-sha2-512-etm@openssh.com\n"
        "HostKeyAlgorithms ssh-ed25519\nMaxAuthTries 3\nAddressFamily inet",
        READY,
    ),
    sshd("no tries", "MaxAuthTries 0", DOUBT, "MaxAuthTries 0", works=False),
    # ---- sessions
    sshd("no sessions", "MaxSessions 0", FAILED, "MaxSessions 0"),
    sshd("one session", "MaxSessions 1", READY),
    sshd("one try", "MaxAuthTries 1", READY),
    sshd("another port", "Port 2222", READY, port=2222),
    sshd("a command instead", "ForceCommand /bin/true", DOUBT, "ForceCommand", works=True),
    sshd("a chroot", "ChrootDirectory /var/empty", DOUBT, "ChrootDirectory", works=False, setup="mkdir -p /var/empty"),
    sshd("loopback alone", "ListenAddress 127.0.0.1", DOUBT, "ListenAddress", works=False),
    sshd("IPv6 alone", "AddressFamily inet6", DOUBT, "IPv4", works=False),
    sshd("RSA host key alone", "HostKey /etc/ssh/ssh_host_rsa_key", READY),
    sshd("a host key of no type", "HostKey /etc/ssh/keys/identity", READY),
    sshd("customData may mend it", "AllowUsers alice", DOUBT, "customData", works=False, custom_data="#!/bin/sh\n"),
    sshd("required", "AllowUsers azureuser@10.0.0.0/8", FAILED, works=True, required="true"),
    sshd("not required", "AllowUsers alice", DOUBT, LINE1, works=False, required="false"),
    Row(
        "a broken configuration",
        Policy(setup=config("NoSuchWord yes")),
        FAILED,
        "50-policy.conf",
        reason="failed to update sshd config",
    ),
    # ---- the account
    account("an account that is there", "", READY),
    account("expired", "chage -E 2001-01-01 azureuser", FAILED, "expired"),
    account("expires later", "chage -E 2099-01-01 azureuser", READY),
    account("nologin", "usermod -s /usr/sbin/nologin azureuser", FAILED, "nologin"),
    account("false", "usermod -s /bin/false azureuser", FAILED, "/bin/false"),
    account("a missing shell", "usermod -s /bin/zsh azureuser", FAILED, "/bin/zsh does not exist"),
    account("a shell that is no program", "touch /opt/sh; usermod -s /opt/sh azureuser", FAILED, "not a program"),
    account("a link to nologin", "ln -s /sbin/nologin /opt/sh; usermod -s /opt/sh azureuser", FAILED, "refuses logins"),
    account("a shell of root's", "install -m 700 /bin/sh /opt/sh; usermod -s /opt/sh azureuser", FAILED, "may not run"),
    account(
        "a shell in a closed directory",
        "mkdir -m 700 /opt/c; cp /bin/sh /opt/c/sh; usermod -s /opt/c/sh azureuser",
        FAILED,
        "may not enter /opt/c",
    ),
    account("a shell that is a link", "ln -s ../usr/bin/bash /opt/sh; usermod -s /opt/sh azureuser", READY),
    account("locked without PAM", f"usermod -p '!' azureuser\n{config('UsePAM no')}", FAILED, "locked"),
    account("starred without PAM", f"usermod -p '*' azureuser\n{config('UsePAM no')}", READY),
    account("locked with PAM", "usermod -p '!' azureuser", READY),
    account(
        "expired without PAM",
        f"chage -E 2001-01-01 azureuser; usermod -p '*' azureuser\n{config('UsePAM no')}",
        FAILED,
        "expired",
    ),
    account(
        "a malformed line of shadow",
        "sed -i 's/^azureuser:.*/azureuser:*:20000:0:99999:7::-1:/' /etc/shadow",
        FAILED,
        "malformed",
    ),
    account("an old line of shadow", "sed -i 's/^azureuser:.*/azureuser:*:20000:0:99999/' /etc/shadow", READY),
    account("must change a password", "chage -d 0 azureuser", FAILED, "must change"),
    account(
        "password aged out", "chage -d 2001-01-01 -M 10 -I 5 azureuser", FAILED, "expired and can no longer be changed"
    ),
    account("a home for everybody", "chmod 0777 /home/azureuser", FAILED, "StrictModes"),
    account("a home for its own group", "chmod 0770 /home/azureuser", DOUBT, "StrictModes", works=True),
    account("a home for a group", "chmod 0770 /home/azureuser; chgrp users /home/azureuser", FAILED, "StrictModes"),
    account("a home for everybody, no StrictModes", f"chmod 0777 /home/azureuser\n{config('StrictModes no')}", READY),
    account("another's home", "chown 12345 /home/azureuser; chmod 755 /home/azureuser", FAILED, "StrictModes"),
    account("another's closed home", "chown 12345 /home/azureuser; chmod 700 /home/azureuser", FAILED, "may not enter"),
    account("root's home", "chown 0:0 /home/azureuser; chmod 755 /home/azureuser", READY),
    account("a closed home above", "chmod 0700 /home", FAILED, "may not enter /home"),
    account("a readable home", "chmod 0755 /home/azureuser", READY),
    account("a home that is a link", "mv /home/azureuser /srv/a; ln -s /srv/a /home/azureuser", READY),
    account("a shared home", "useradd -M -d /home/azureuser -s /bin/sh twin", FAILED, "belongs to azureuser alone"),
    account("a home that is gone", "rm -r /home/azureuser", READY),
    account("a key file of root's", "mkdir /home/azureuser/.ssh; touch /home/azureuser/.ssh/authorized_keys", READY),
    account("both, a home for everybody", "chmod 0777 /home/azureuser", NOTE, "key that was given", password=True),
    account(
        "a shell that leads to nologin", f"{NOLOGIN_LINK}; usermod -s /bin/mysh azureuser", FAILED, "refuses logins"
    ),
    account(
        "a shell of root's alone",
        "cp /bin/bash /bin/mysh; chmod 700 /bin/mysh; usermod -s /bin/mysh azureuser",
        FAILED,
        "cannot be run",
    ),
    account("the key from elsewhere", key_line('from="192.0.2.1"'), DOUBT, 'from="192.0.2.1"', works=False),
    account("the key expired", key_line('expiry-time="20010101"'), DOUBT, "expiry-time", works=False),
    account("the key for a command", key_line('command="/bin/false"'), DOUBT, "command=", works=False),
    account("the key as an authority", key_line("cert-authority"), READY),
    account("the key without forwarding", key_line("restrict"), READY),
    account("must change a password today", "chage -M 0 azureuser", DOUBT, "must change", works=False),
    Row("TCP wrappers", Policy(setup="echo 'sshd: ALL' > /etc/hosts.deny"), DOUBT, "/etc/hosts.deny", works=False),
    Row("TCP wrappers of others", Policy(setup="printf '# ALL: ALL\\nvsftpd: ALL\\n' > /etc/hosts.deny"), READY),
    Row("PAM refuses sessions", Policy(setup=pam("session requisite pam_deny.so")), FAILED, "session lines) refuses"),
    Row("PAM refuses passwords", Policy(setup=pam("auth requisite pam_deny.so")), READY),
    Row(
        "PAM asks a program",
        Policy(setup=pam("account required pam_exec.so /bin/false")),
        DOUBT,
        "pam_exec",
        works=False,
    ),
    Row("PAM asks in vain", Policy(setup=pam("account optional pam_exec.so /bin/false")), READY),
    Row(
        "PAM knows no sshd",
        Policy(setup="rm /etc/pam.d/sshd; echo 'account required pam_deny.so' > /etc/pam.d/other"),
        FAILED,
        "account lines) refuses",
    ),
    Row("/etc/nologin", Policy(setup="echo closed > /etc/nologin"), FAILED, "/etc/nologin"),
    Row(
        "another nologin file",
        Policy(
            setup="touch /etc/nologin; sed -i 's,pam_nologin.so,pam_nologin.so file=/run/closed,' /etc/pam.d/sshd",
        ),
        READY,
    ),
    Row(
        "pam_deny",
        Policy(setup="sed -i '1i account required pam_deny.so' /etc/pam.d/sshd"),
        FAILED,
        "account lines) refuses",
    ),
    Row("/run/nologin while it boots", Policy(setup="touch /run/nologin", after="rm /run/nologin"), READY),
    Row(
        "pam_access",
        Policy(
            setup="sed -i '1i account required pam_access.so' /etc/pam.d/sshd\n"
            "echo '-:ALL:ALL' > /etc/security/access.conf"
        ),
        DOUBT,
        "pam_access",
        works=False,
    ),
    Row(
        "without PAM",
        Policy(setup=config("UsePAM no")),
        READY,
    ),
    Row("without PAM, password", Policy(setup=config("UsePAM no"), password=True, key=False), READY),
)
