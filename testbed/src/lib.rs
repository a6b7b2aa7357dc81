//! Private servers and peers for tests and demos.
//!
//! Everything here lives on loopback and in temporary folders, and is gone when its owner is gone,
//! however its owner went: [`Testbed`] starts a Redis and a PostgreSQL of its own, [`Guard`] sees to
//! their end, [`DelayProxy`] gives loopback the round-trip time of a network, and the peers
//! [`ExactDelay`], [`ExactStream`] and [`FaultyServer`] are servers whose right answers are known
//! beforehand; [`IdentityStub`] and [`HubStub`] stand in for services that a service calls, with a
//! latency as stated.

mod coded_body;
mod delay_proxy;
mod exact_delay;
mod exact_stream;
mod fault;
mod faulty;
mod framing_fault;
mod guard;
mod http_message;
mod hub_stub;
mod identity_stub;
mod peer;
mod postgres;
mod programs;
mod proxied_connection;
mod proxy_loop;
mod redis;
mod server;
mod server_url;
mod stream_fault;
mod stream_format;
mod stub;
mod testbed;

pub use delay_proxy::{DEFAULT_ROUND_TRIP, DelayProxy, RoundTrip};
pub use exact_delay::{ExactDelay, RouteTruth};
pub use exact_stream::{ExactStream, StreamClock, StreamTruth};
pub use faulty::{
    Behaviour, FaultyCounts, FaultyServer, RIGHT_FRAMES, Received, WRONG_FRAMES, right_answer,
};
pub use guard::{Guard, GuardedCommand, StopSignal};
pub use hub_stub::{Hub, HubStub};
pub use identity_stub::IdentityStub;
pub use stream_format::StreamFormat;
pub use testbed::{Options, Testbed, TestbedError};
