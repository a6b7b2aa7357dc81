//! Who keeps the locks: [`LocalLocks`] within one process, [`RedisLocks`] for many workers.

mod clock;
mod keeper;
mod lease_times;
mod local;
mod redis;
mod redis_scripts;
mod waiting;

pub use clock::{BootClock, Clock};
pub use lease_times::LeaseTimes;
pub use local::LocalLocks;
pub use redis::RedisLocks;
pub use redis_scripts::ConnectError;
