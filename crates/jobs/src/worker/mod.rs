//! The runtime under the workers of streams and of delayed queues.
//!
//! The two protocols differ: a stream's worker reads pages of a consumer group and acknowledges entry
//! ids; a queue's worker claims what is due and settles it with a token. What both do around that is
//! here, each idea in one file:
//!
//! | | |
//! | --- | --- |
//! | `running` | the tasks of a worker: start, shutdown in order, drain timeout |
//! | `handler_pool` | how many handlers run at once; an item that may have ended a process runs alone |
//! | `observed` | a handler's span and duration |
//! | `outcome` | what a handler returns, what follows from it, and after which delay |
//! | `settling` | completions are sent again until Redis accepts them; when the worker ends, three times at most |
//! | `outage` | pauses after Redis did not answer |
//! | `renewal` | what a worker holds is renewed in time |
//! | `idle` | waiting until nothing is in progress |
//! | `panics` | panics of the caller's code become texts |
//!
//! ```text
//!             stop                                    finish
//!              ▼                                        ▼
//!  Redis ──▶ intake ──items──▶ handler pool ──reports──▶ settler ──▶ Redis
//!              reader, claimer                           renewal
//! ```
//!
//! The order of a shutdown follows from the picture: the intake ends, what is in progress finishes or
//! is abandoned, the settlers send what is left and end.

mod handler_pool;
mod idle;
mod observed;
mod outage;
mod outcome;
mod panics;
mod renewal;
mod running;
mod settling;

pub(crate) use handler_pool::{HandlerPool, Permit, UntilSettled};
pub(crate) use idle::Idle;
pub(crate) use observed::Observed;
pub(crate) use outage::Outage;
pub(crate) use outcome::Next;
pub use outcome::Outcome;
pub(crate) use panics::decoded;
pub(crate) use renewal::renew_while;
pub(crate) use running::{InProgress, Part, Running, Signals};
pub(crate) use settling::{Settle, settle};
