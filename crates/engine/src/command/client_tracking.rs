//! CLIENT TRACKING and its relatives; the tables are in [`crate::tracking`].

use std::collections::BTreeSet;

use crate::args::{int, is};
use crate::ctx::Ctx;
use crate::error::{Done, Error, printable};
use crate::resp::Reply;
use crate::session::{Redirect, TrackingState};

/// CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]
pub(super) fn client_tracking(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let (options, prefixes) = parse(cx, &args[3..])?;
    if is(args[2], "on") {
        start(cx, options, &prefixes)?;
    } else if is(args[2], "off") {
        cx.engine.stop_tracking(cx.session);
    } else {
        return Err(Error::SYNTAX);
    }
    out.ok();
    Ok(())
}

fn parse<'a>(
    cx: &Ctx<'_>,
    mut words: &[&'a [u8]],
) -> Result<(TrackingState, Vec<&'a [u8]>), Error> {
    let mut options = TrackingState::default();
    let mut prefixes = Vec::new();
    while let [word, rest @ ..] = words {
        words = rest;
        match (word.to_ascii_lowercase().as_slice(), rest) {
            (b"redirect", [id, rest @ ..]) => {
                if options.redirect.is_some() {
                    return Err(Error::fixed(
                        "ERR A client can only redirect to a single other client",
                    ));
                }
                options.redirect = Some(find_client(cx, int(id)?)?);
                words = rest;
            }
            (b"prefix", [prefix, rest @ ..]) => {
                prefixes.push(*prefix);
                words = rest;
            }
            (b"bcast", _) => options.broadcast = true,
            (b"optin", _) => options.opt_in = true,
            (b"optout", _) => options.opt_out = true,
            (b"noloop", _) => options.no_loop = true,
            _ => return Err(Error::SYNTAX),
        }
    }
    Ok((options, prefixes))
}

fn find_client(cx: &Ctx<'_>, id: i64) -> Result<Redirect, Error> {
    cx.engine
        .sessions
        .iter()
        .find(|(_, session)| i64::try_from(session.client_id) == Ok(id))
        .map(|(index, session)| Redirect { session: index, client_id: session.client_id })
        .ok_or(Error::fixed("ERR The client ID you want redirect to does not exist"))
}

/// Checks that the options are compatible with each other and with the session's state.
fn start(cx: &mut Ctx<'_>, mut options: TrackingState, prefixes: &[&[u8]]) -> Done {
    if !options.broadcast && !prefixes.is_empty() {
        return Err(Error::fixed("ERR PREFIX option requires BCAST mode to be enabled"));
    }
    let before = cx.session().tracking.as_deref();
    if before.is_some_and(|before| before.broadcast != options.broadcast) {
        return Err(Error::fixed(
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        ));
    }
    if options.broadcast && (options.opt_in || options.opt_out) {
        return Err(Error::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST"));
    }
    if options.opt_in && options.opt_out {
        return Err(Error::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode"));
    }
    let switches = |before: &TrackingState| {
        (options.opt_in && before.opt_out) || (options.opt_out && before.opt_in)
    };
    if before.is_some_and(switches) {
        return Err(Error::fixed(
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, \
             and then re-enabling it with a different mode.",
        ));
    }
    if let Some(before) = before {
        options.caching = before.caching;
    }
    if options.broadcast {
        let existing = before.map(|before| &before.prefixes);
        check_overlaps(existing.unwrap_or(&BTreeSet::new()), prefixes)?;
        options.prefixes = prefixes.iter().map(|prefix| prefix.to_vec()).collect();
        if prefixes.is_empty() {
            options.prefixes.insert(Vec::new());
        }
    }
    cx.engine.start_tracking(cx.session, options);
    Ok(())
}

/// A key must not be reported twice to one session.
fn check_overlaps(existing: &BTreeSet<Vec<u8>>, added: &[&[u8]]) -> Done {
    let overlap = |left: &[u8], right: &[u8]| left.starts_with(right) || right.starts_with(left);
    for (index, prefix) in added.iter().enumerate() {
        let (other, kind) = match existing.iter().find(|other| overlap(other, prefix)) {
            Some(other) => (other.as_slice(), "an existing"),
            None => match added[index + 1..].iter().find(|other| overlap(other, prefix)) {
                Some(other) => (*other, "another provided"),
                None => continue,
            },
        };
        let (prefix, other) = (printable(prefix, prefix.len()), printable(other, other.len()));
        return Err(Error::new(format!(
            "ERR Prefix '{prefix}' overlaps with {kind} prefix '{other}'. Prefixes for a single \
             client must not overlap."
        )));
    }
    Ok(())
}

/// CLIENT CACHING YES|NO
pub(super) fn client_caching(cx: &mut Ctx<'_>, args: &[&[u8]], out: &mut Reply) -> Done {
    let Some(tracking) = &mut cx.session_mut().tracking else {
        return Err(Error::fixed(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN \
             or OPTOUT mode enabled",
        ));
    };
    if is(args[2], "yes") {
        if !tracking.opt_in {
            return Err(Error::fixed(
                "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
            ));
        }
        tracking.caching = Some(true);
    } else if is(args[2], "no") {
        if !tracking.opt_out {
            return Err(Error::fixed(
                "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
            ));
        }
        tracking.caching = Some(false);
    } else {
        return Err(Error::SYNTAX);
    }
    out.ok();
    Ok(())
}

/// CLIENT GETREDIR
pub(super) fn client_getredir(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    out.int(redirect_of(cx.session().tracking.as_deref()));
    Ok(())
}

/// Where invalidations go: -1 nowhere, 0 to the session itself.
fn redirect_of(tracking: Option<&TrackingState>) -> i64 {
    match tracking {
        None => -1,
        Some(tracking) => tracking.redirect.map_or(0, |redirect| redirect.client_id as i64),
    }
}

/// CLIENT TRACKINGINFO
pub(super) fn client_trackinginfo(cx: &mut Ctx<'_>, _: &[&[u8]], out: &mut Reply) -> Done {
    let tracking = cx.session().tracking.as_deref();
    let mut flags = vec![if tracking.is_some() { "on" } else { "off" }];
    if let Some(tracking) = tracking {
        let caching = tracking.caching.is_some();
        let named = [
            (tracking.broadcast, "bcast"),
            (tracking.opt_in, "optin"),
            (tracking.opt_in && caching, "caching-yes"),
            (tracking.opt_out, "optout"),
            (tracking.opt_out && caching, "caching-no"),
            (tracking.no_loop, "noloop"),
            (tracking.broken_redirect, "broken_redirect"),
        ];
        flags.extend(named.iter().filter(|(on, _)| *on).map(|(_, name)| name));
    }
    out.map(3);
    out.bulk(b"flags");
    out.set(flags.len());
    flags.iter().for_each(|flag| out.bulk(flag.as_bytes()));
    out.bulk(b"redirect");
    out.int(redirect_of(tracking));
    out.bulk(b"prefixes");
    let prefixes = tracking.map(|tracking| &tracking.prefixes);
    out.array(prefixes.map_or(0, BTreeSet::len));
    prefixes.into_iter().flatten().for_each(|prefix| out.bulk(prefix));
    Ok(())
}
