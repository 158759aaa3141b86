//! The HELP subcommands: what a container command offers, in our own words.

use crate::resp::Reply;

/// A subcommand's form and what it does.
pub(super) type Line = (&'static str, &'static str);

/// Writes the help of a container command.
pub(super) fn reply(command: &str, lines: &[Line], out: &mut Reply) {
    out.array(lines.len() * 2 + 3);
    out.simple(&format!("{command} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:"));
    for (form, about) in lines {
        out.simple(form);
        out.simple(&format!("    {about}"));
    }
    out.simple("HELP");
    out.simple("    Print this help.");
}

pub(super) const PUBSUB: &[Line] = &[
    ("CHANNELS [<pattern>]", "Channels with listeners that match the pattern (default: all)."),
    ("NUMPAT", "Number of patterns that are listened to."),
    ("NUMSUB [<channel> ...]", "Listeners of each channel, patterns not counted."),
    ("SHARDCHANNELS [<pattern>]", "Shard channels with listeners that match the pattern."),
    ("SHARDNUMSUB [<shardchannel> ...]", "Listeners of each shard channel."),
];
pub(super) const CLIENT: &[Line] = &[
    ("CACHING (YES|NO)", "Track, or do not track, the keys of the next command."),
    ("GETREDIR", "Client that gets this connection's invalidations."),
    ("GETNAME", "Name of this connection."),
    ("ID", "Number of this connection."),
    ("INFO", "What is known about this connection."),
    (
        "KILL <ip:port> | <option> <value> [...]",
        "Close connections: ADDR, LADDR, TYPE, USER, SKIPME, ID.",
    ),
    ("LIST [TYPE <type>] [ID <id> ...]", "What is known about all connections."),
    ("NO-EVICT (ON|OFF)", "Protect this connection from eviction."),
    ("PAUSE <timeout> [WRITE|ALL]", "Hold back commands for some milliseconds."),
    ("REPLY (ON|OFF|SKIP)", "Send replies, none, or all but the next."),
    ("SETNAME <name>", "Name this connection."),
    ("TRACKING (ON|OFF) [options]", "Be told when keys that were read change."),
    ("TRACKINGINFO", "How this connection tracks keys."),
    ("UNBLOCK <id> [TIMEOUT|ERROR]", "End the waiting of a blocked connection."),
    ("UNPAUSE", "End a pause."),
];
pub(super) const DEBUG: &[Line] = &[
    ("CHANGE-REPL-ID", "Accepted; there is no replication."),
    ("LOADAOF", "As RELOAD."),
    ("OBJECT <key>", "How the value is stored."),
    ("PAUSE-CRON <0|1>", "Leave the regular work undone, or do it again."),
    ("PROTOCOL <type>", "A reply of this type, for testing clients."),
    ("QUICKLIST-PACKED-THRESHOLD <size>", "Accepted; lists have no such threshold."),
    ("RELOAD", "Write everything out and read it again."),
    ("REPLYBUFFER <option> <value>", "Accepted; replies have no such buffer."),
    ("SET-ACTIVE-EXPIRE <0|1>", "Leave due keys until they are asked for, or remove them."),
    ("SLEEP <seconds>", "Run nothing for so long."),
];
pub(super) const OBJECT: &[Line] = &[
    ("ENCODING <key>", "How the value is stored."),
    ("FREQ <key>", "How often the key is used, under an LFU policy."),
    ("IDLETIME <key>", "Seconds since the key was last used."),
    ("REFCOUNT <key>", "References to the value."),
];
pub(super) const MEMORY: &[Line] = &[
    ("DOCTOR", "Says what looks wrong with memory."),
    ("MALLOC-STATS", "What the allocator says of itself."),
    ("PURGE", "Give memory back to the system."),
    ("STATS", "Memory by use."),
    ("USAGE <key> [SAMPLES <count>]", "Bytes that a key and its value take."),
];
pub(super) const CONFIG: &[Line] = &[
    ("GET <pattern> [<pattern> ...]", "Settings that match, with their values."),
    ("SET <setting> <value> [<setting> <value> ...]", "Change settings, all or none."),
    ("RESETSTAT", "Set the counters of INFO to zero."),
    ("REWRITE", "Write the settings to the configuration file."),
];
pub(super) const COMMAND: &[Line] = &[
    ("(no subcommand)", "All commands with their details."),
    ("COUNT", "Number of commands."),
    ("DOCS [<command> ...]", "Documentation of commands."),
    ("GETKEYS <full-command>", "Keys among the arguments of a command."),
    ("GETKEYSANDFLAGS <full-command>", "Keys and what the command does with them."),
    ("INFO [<command> ...]", "Details of commands."),
    ("LIST [FILTERBY (MODULE|ACLCAT|PATTERN) <value>]", "Names of commands."),
];
pub(super) const SLOWLOG: &[Line] = &[
    ("GET [<count>]", "Newest slow commands (default: 10; -1: all)."),
    ("LEN", "Number of slow commands that are kept."),
    ("RESET", "Forget all slow commands."),
];
pub(super) const SCRIPT: &[Line] = &[
    ("DEBUG (YES|SYNC|NO)", "Choose how the following scripts are debugged."),
    ("EXISTS <sha1> [<sha1> ...]", "Which of these scripts are known."),
    ("FLUSH [ASYNC|SYNC]", "Forget all scripts."),
    ("KILL", "End the script that runs now, if it has written nothing."),
    ("LOAD <script>", "Remember a script without running it."),
];
pub(super) const FUNCTION: &[Line] = &[
    ("LOAD [REPLACE] <code>", "Make a library of functions."),
    ("DELETE <library>", "Remove a library."),
    ("LIST [LIBRARYNAME <pattern>] [WITHCODE]", "Libraries and their functions."),
    ("STATS", "The function that runs now, and how many libraries and functions there are."),
    ("KILL", "End the function that runs now, if it has written nothing."),
    ("FLUSH [ASYNC|SYNC]", "Remove all libraries."),
];
