//! Private servers and peers for tests and demos.
//!
//! Everything here lives on loopback and in temporary folders, and is gone when its owner is gone,
//! however its owner went: [`Testbed`] starts a Redis and a PostgreSQL of its own, [`Guard`] sees to
//! their end, [`DelayProxy`] gives loopback the round-trip time of a network, and the peers
//! [`ExactDelay`], [`ExactStream`], [`FaultyServer`] and [`Http2Server`] are servers whose right answers are known
//! beforehand; [`IdentityStub`], [`HubStub`], [`TrackerStub`] and [`ListenerStub`] stand in for services
//! that a service calls, with a latency as stated. With the feature `fronts` there is also a `Front`, by which a server that
//! speaks HTTP/1.1 is reached over TLS and HTTP/2, and a CA (`Authority`) for its certificates.

#[cfg(feature = "fronts")]
mod authority;
mod coded_body;
mod delay_proxy;
mod exact_delay;
mod exact_stream;
mod fault;
mod faulty;
mod framing_fault;
#[cfg(feature = "fronts")]
mod front;
#[cfg(feature = "fronts")]
mod front_http2;
mod guard;
mod held_port;
mod http2_fault;
mod http2_frame;
mod http2_server;
mod http_message;
mod hub_stub;
mod identity_stub;
mod listener_stub;
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
mod tracker_stub;

#[cfg(feature = "fronts")]
pub use authority::{Authority, Identity};
pub use delay_proxy::{DEFAULT_ROUND_TRIP, DelayProxy, RoundTrip};
pub use exact_delay::{ExactDelay, RouteTruth};
pub use exact_stream::{ExactStream, StreamClock, StreamTruth};
pub use faulty::{
    Behaviour, FaultyCounts, FaultyServer, RIGHT_FRAMES, Received, WRONG_FRAMES, right_answer,
};
#[cfg(feature = "fronts")]
pub use front::{Farewell, Front, FrontTls};
pub use guard::{Guard, GuardedCommand, StopSignal};
pub use http2_server::{Http2Server, RIGHT_HTTP2, WRONG_HTTP2};
pub use hub_stub::{Hub, HubStub};
pub use identity_stub::IdentityStub;
pub use listener_stub::ListenerStub;
pub use stream_format::StreamFormat;
pub use testbed::{Options, Testbed, TestbedError};
pub use tracker_stub::TrackerStub;
