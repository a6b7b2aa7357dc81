"""E-mail addresses: whether a text is one, and whose it may be."""

import re

# RFC 5321: a local part of 64 bytes and an address of 254 at most.
_ADDRESS_MAX = 254
_ADDRESS = re.compile(
    r"""[!#-'*+\-./0-9=?A-Z^_`a-z{|}~]{1,64}@(?!-)[A-Za-z0-9-]+(?<!-)(\.(?!-)[A-Za-z0-9-]+(?<!-))+"""
)
# Domains whose addresses belong to persons; new accounts aren't made for them.
_PERSONAL_DOMAINS = {
    "aol.com",
    "gmail.com",
    "gmx.com",
    "googlemail.com",
    "hotmail.com",
    "icloud.com",
    "live.com",
    "mail.com",
    "outlook.com",
    "proton.me",
    "protonmail.com",
    "yahoo.com",
}


def normalised(text: str) -> str:
    """Write an address as accounts are looked up by: no white space around it, lower case."""
    return text.strip().lower()


def is_address(text: str) -> bool:
    """Tell whether a text has the form of an address; only a mail to it could tell more."""
    return len(text) <= _ADDRESS_MAX and _ADDRESS.fullmatch(text) is not None


def is_personal(address: str) -> bool:
    """Tell whether an address is one of the large providers of private mail."""
    return address.rpartition("@")[2].lower() in _PERSONAL_DOMAINS


def local_part(address: str) -> str:
    """Give what stands before the `@`, for people without a name."""
    return address.partition("@")[0]
