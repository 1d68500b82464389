"""The link to the API server: sees the node's one PowerNode, writes its status, keeps the node's Lease."""

from powertrain_agent.link.envelope import Envelope, Refusal
from powertrain_agent.link.link import Inbox, Link, LinkSettings

__all__ = ["Envelope", "Inbox", "Link", "LinkSettings", "Refusal"]
