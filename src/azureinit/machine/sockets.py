"""The part of `socket` that a boot needs, without the enums of that module: they cost every start 7 ms.

`_socket` is the private module of CPython that `socket` itself is made of. Where it is missing or has other names,
`socket` gives the same names.
"""

from __future__ import annotations

try:
    from _socket import (
        AF_INET as AF_INET,
        AF_INET6 as AF_INET6,
        AF_NETLINK as AF_NETLINK,
        AF_UNIX as AF_UNIX,
        NETLINK_ROUTE as NETLINK_ROUTE,
        SCM_RIGHTS as SCM_RIGHTS,
        SOCK_CLOEXEC as SOCK_CLOEXEC,
        SOCK_DGRAM as SOCK_DGRAM,
        SOCK_RAW as SOCK_RAW,
        SOCK_STREAM as SOCK_STREAM,
        SOL_SOCKET as SOL_SOCKET,
        gaierror as gaierror,
        inet_ntop as inet_ntop,
        inet_pton as inet_pton,
        sethostname as sethostname,
        socket as socket,
        timeout as timeout,
    )
except ImportError:
    from socket import (  # type: ignore[assignment]
        AF_INET as AF_INET,
        AF_INET6 as AF_INET6,
        AF_NETLINK as AF_NETLINK,
        AF_UNIX as AF_UNIX,
        NETLINK_ROUTE as NETLINK_ROUTE,
        SCM_RIGHTS as SCM_RIGHTS,
        SOCK_CLOEXEC as SOCK_CLOEXEC,
        SOCK_DGRAM as SOCK_DGRAM,
        SOCK_RAW as SOCK_RAW,
        SOCK_STREAM as SOCK_STREAM,
        SOL_SOCKET as SOL_SOCKET,
        gaierror as gaierror,
        inet_ntop as inet_ntop,
        inet_pton as inet_pton,
        sethostname as sethostname,
        socket as socket,
        timeout as timeout,
    )
