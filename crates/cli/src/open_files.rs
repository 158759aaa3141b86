//! The limit of open files: every client needs one, so the default of many systems is too low.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use seawall_server::{Level, Notices};

/// Files that the program needs besides its clients' sockets.
const RESERVED: u64 = 32;

/// Raises the limit for `max_clients`, as far as the system allows. Returns how many clients fit.
pub(crate) fn raise(max_clients: u64, notices: &Notices) -> u64 {
    let wanted = max_clients.saturating_add(RESERVED);
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_none_or(|current| current >= wanted) {
        return max_clients;
    }
    let reachable = maximum.map_or(wanted, |maximum| maximum.min(wanted));
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(reachable), maximum });
    let limit = if raised.is_ok() { reachable } else { current.unwrap_or(wanted) };
    if limit >= wanted {
        return max_clients;
    }
    let fit = limit.saturating_sub(RESERVED).max(1);
    notices.tell(
        Level::Warning,
        format_args!("the system allows {limit} open files, so maxclients is {fit}"),
    );
    fit
}
