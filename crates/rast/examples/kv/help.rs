//! What CLIENT HELP, COMMAND HELP and CONFIG HELP answer.

/// CLIENT HELP.
pub(crate) const CLIENT: &[&str] = &[
    "CLIENT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETNAME",
    "    Return the name of the current connection.",
    "GETREDIR",
    "    Return -1: there is no tracking.",
    "ID",
    "    Return the ID of the current connection.",
    "INFO",
    "    Return information about the current client connection.",
    "KILL <ip:port>",
    "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]",
    "    Kill connections. Options are ADDR, LADDR, ID, TYPE, USER, SKIPME.",
    "LIST [TYPE <type> | ID <id> [<id> ...]]",
    "    Return information about client connections.",
    "NO-EVICT (ON|OFF)",
    "    Accepted: connections are closed by the size of their buffers alone.",
    "NO-TOUCH (ON|OFF)",
    "    Accepted: there is no order of last use.",
    "REPLY ON",
    "    Accepted: replies are always on.",
    "SETINFO <option> <value>",
    "    Set LIB-NAME or LIB-VER of the current connection.",
    "SETNAME <name>",
    "    Assign the name <name> to the current connection.",
    "TRACKING OFF",
    "    Accepted: there is no tracking.",
    "TRACKINGINFO",
    "    Report that there is no tracking.",
    "UNBLOCK <clientid> [TIMEOUT|ERROR]",
    "    Return 0: no client is ever blocked.",
    "HELP",
    "    Print this help.",
];

/// COMMAND HELP.
pub(crate) const COMMAND: &[&str] = &[
    "COMMAND <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "(no subcommand)",
    "    Return details about all commands.",
    "COUNT",
    "    Return the total number of commands in this server.",
    "DOCS [<command-name> ...]",
    "    Return documentation about commands.",
    "GETKEYS <full-command>",
    "    Return the keys from a full command.",
    "INFO [<command-name> ...]",
    "    Return details about commands.",
    "LIST [FILTERBY (MODULE <module-name> | ACLCAT <cat> | PATTERN <pattern>)]",
    "    Return the names of commands.",
    "HELP",
    "    Print this help.",
];

/// CONFIG HELP.
pub(crate) const CONFIG: &[&str] = &[
    "CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GET <pattern>",
    "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>",
    "    Refused: settings are given on the command line.",
    "HELP",
    "    Print this help.",
];
