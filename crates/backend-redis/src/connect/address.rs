//! Where Redis is, as an operator writes it down.

use std::fmt;
use std::str::FromStr;

const HOSTS_MAX: usize = 64;
const PORT_OF_REDIS: u16 = 6379;
const PORT_OF_SENTINEL: u16 = 26379;

/// Where Redis is.
///
/// `redis://[user:password@]host:port[/database]`, `rediss://` for TLS, several hosts with commas for the seeds of a
/// Cluster, `redis+sentinel://` or `rediss+sentinel://[user:password@]host:port[,host:port…]/<master>[/<database>]`.
/// The password is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    tls: bool,
    login: Option<Login>,
    hosts: Vec<Host>,
    /// The name of the master, when the hosts are Sentinels.
    master: Option<String>,
    database: i64,
}

/// One server to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) port: u16,
}

#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    pub(super) user: Option<String>,
    pub(super) password: String,
}

/// Why an address cannot be used. No variant carries a piece of it: the piece could be the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error(
        "the address of Redis must begin with redis://, rediss://, redis+sentinel:// or rediss+sentinel://"
    )]
    Scheme,
    #[error("the address of Redis names no host: write redis://host:port")]
    NoHost,
    #[error("the address of Redis names more than {HOSTS_MAX} hosts: a few seeds are enough")]
    TooManyHosts,
    #[error(
        "a port in the address of Redis is not a number from 1 to 65535; if the password has a /, @, : or %, \
         write it as %2F, %40, %3A or %25"
    )]
    Port,
    #[error("the address of Redis has a user but no password: write user:password@host")]
    NoPassword,
    #[error(
        "the address of Redis has a % that is not followed by two hexadecimal digits: write a plain % as %25"
    )]
    Escape,
    #[error(
        "the database in the address of Redis is not a number from 0 to 65535: write redis://host:port/0"
    )]
    Database,
    #[error("a Redis Cluster has only database 0: leave the /<number> out, or name a single host")]
    DatabaseOfCluster,
    #[error(
        "the address of the Sentinels does not say which master: write redis+sentinel://host:port/<master name>"
    )]
    NoMaster,
    #[error("the address of Redis has a ? or #: options are set in the settings, not in the address")]
    Options,
}

impl Address {
    pub(super) fn uses_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn login(&self) -> Option<&Login> {
        self.login.as_ref()
    }

    pub(super) fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    pub(super) fn master(&self) -> Option<&str> {
        self.master.as_deref()
    }

    pub(super) fn database(&self) -> i64 {
        self.database
    }

    /// `text` without the password: a server older than 6 repeats the arguments of the HELLO it does not know.
    pub(super) fn hide_password(&self, text: &str) -> String {
        match &self.login {
            Some(login) if !login.password.is_empty() => text.replace(&login.password, "***"),
            Some(_) | None => text.to_owned(),
        }
    }
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (scheme, rest) = text.trim().split_once("://").ok_or(AddressError::Scheme)?;
        let (tls, sentinel) = match scheme {
            "redis" => (false, false),
            "rediss" => (true, false),
            "redis+sentinel" => (false, true),
            "rediss+sentinel" => (true, true),
            _ => return Err(AddressError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(AddressError::Options);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (login, hosts) = match authority.rsplit_once('@') {
            Some((login, hosts)) => (Some(parse_login(login)?), hosts),
            None => (None, authority),
        };
        let hosts = parse_hosts(hosts, if sentinel { PORT_OF_SENTINEL } else { PORT_OF_REDIS })?;
        let (master, database) = if sentinel {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            (
                Some(unescape(master)?).filter(|name| !name.is_empty()).ok_or(AddressError::NoMaster)?.into(),
                database,
            )
        } else {
            (None, path)
        };
        let database = parse_database(database)?;
        if hosts.len() > 1 && master.is_none() && database != 0 {
            return Err(AddressError::DatabaseOfCluster);
        }
        Ok(Self { tls, login, hosts, master, database })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "rediss" } else { "redis" };
        let sentinel = if self.master.is_some() { "+sentinel" } else { "" };
        write!(formatter, "{scheme}{sentinel}://")?;
        if let Some(login) = &self.login {
            write!(formatter, "{}:***@", login.user.as_deref().unwrap_or(""))?;
        }
        for (index, host) in self.hosts.iter().enumerate() {
            write!(formatter, "{}{host}", if index == 0 { "" } else { "," })?;
        }
        if let Some(master) = &self.master {
            write!(formatter, "/{master}")?;
        }
        if self.database == 0 { Ok(()) } else { write!(formatter, "/{}", self.database) }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Address({self})")
    }
}

impl fmt::Display for Host {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(formatter, "[{}]:{}", self.name, self.port)
        } else {
            write!(formatter, "{}:{}", self.name, self.port)
        }
    }
}

fn parse_login(text: &str) -> Result<Login, AddressError> {
    let (user, password) = text.split_once(':').ok_or(AddressError::NoPassword)?;
    let user = Some(unescape(user)?).filter(|user| !user.is_empty());
    Ok(Login { user, password: unescape(password)? })
}

fn parse_hosts(text: &str, default_port: u16) -> Result<Vec<Host>, AddressError> {
    let hosts = text
        .split(',')
        .take(HOSTS_MAX + 1)
        .map(|host| parse_host(host, default_port))
        .collect::<Result<Vec<_>, _>>()?;
    if hosts.len() > HOSTS_MAX { Err(AddressError::TooManyHosts) } else { Ok(hosts) }
}

fn parse_host(text: &str, default_port: u16) -> Result<Host, AddressError> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, rest) = rest.split_once(']').ok_or(AddressError::NoHost)?;
            match rest {
                "" => (name, None),
                _ => (name, Some(rest.strip_prefix(':').ok_or(AddressError::Port)?)),
            }
        }
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err(AddressError::NoHost);
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|&port: &u16| port > 0).ok_or(AddressError::Port)?,
    };
    Ok(Host { name: name.to_owned(), port })
}

fn parse_database(text: &str) -> Result<i64, AddressError> {
    match text.trim_end_matches('/') {
        "" => Ok(0),
        number => number.parse::<u16>().map(i64::from).map_err(|_| AddressError::Database),
    }
}

/// Undoes %-escapes.
fn unescape(text: &str) -> Result<String, AddressError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        if first != b'%' {
            bytes.push(first);
            rest = after;
            continue;
        }
        let (digits, after) = after.split_at_checked(2).ok_or(AddressError::Escape)?;
        let digits = std::str::from_utf8(digits).map_err(|_| AddressError::Escape)?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| AddressError::Escape)?);
        rest = after;
    }
    String::from_utf8(bytes).map_err(|_| AddressError::Escape)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Address {
        text.parse().unwrap()
    }

    fn refusal(text: &str) -> AddressError {
        text.parse::<Address>().unwrap_err()
    }

    #[test]
    fn every_form_of_address_is_understood() {
        let plain = parse("redis://cache.internal");
        assert_eq!(plain.to_string(), "redis://cache.internal:6379");
        assert!(!plain.uses_tls() && plain.master().is_none() && plain.database() == 0);
        assert_eq!(parse("rediss://cache:7000/3").to_string(), "rediss://cache:7000/3");
        assert_eq!(parse("redis://a:1,b:2,[::1]:3").to_string(), "redis://a:1,b:2,[::1]:3");
        let sentinels = parse("rediss+sentinel://s1,s2:5/main/2");
        assert_eq!(sentinels.to_string(), "rediss+sentinel://s1:26379,s2:5/main/2");
        assert_eq!((sentinels.master(), sentinels.database()), (Some("main"), 2));
    }

    #[test]
    fn the_login_is_unescaped_and_the_password_never_shown() {
        let address = parse("redis://app:p%40ss%2Fword@host:1");
        let login = address.login().unwrap();
        assert_eq!((login.user.as_deref(), login.password.as_str()), (Some("app"), "p@ss/word"));
        for shown in
            [format!("{address}"), format!("{address:?}"), address.hide_password("HELLO 3 AUTH p@ss/word")]
        {
            assert!(!shown.contains("p@ss/word") && shown.contains("***"), "{shown}");
        }
        assert_eq!(parse("redis://:only@host").login().unwrap().user, None);
    }

    #[test]
    fn a_wrong_address_is_refused_with_what_to_write_and_without_its_pieces() {
        assert_eq!(refusal("http://host"), AddressError::Scheme);
        assert_eq!(refusal("host:6379"), AddressError::Scheme);
        assert_eq!(refusal("redis://"), AddressError::NoHost);
        assert_eq!(refusal("redis://a,,b"), AddressError::NoHost);
        assert_eq!(refusal("redis://host:0"), AddressError::Port);
        assert_eq!(refusal("redis://user@host"), AddressError::NoPassword);
        assert_eq!(refusal("redis://:100%@host"), AddressError::Escape);
        assert_eq!(refusal("redis://host/many"), AddressError::Database);
        assert_eq!(refusal("redis://a,b/1"), AddressError::DatabaseOfCluster);
        assert_eq!(refusal("redis+sentinel://host"), AddressError::NoMaster);
        assert_eq!(refusal("redis://host?protocol=3"), AddressError::Options);
        // A slash that was not escaped cuts the password in two; the message must not show either half.
        let cut = refusal("redis://app:secret/word@host");
        assert_eq!(cut, AddressError::Port);
        assert!(!cut.to_string().contains("secret"));
        assert_eq!(refusal(&format!("redis://{}", "h,".repeat(70))), AddressError::TooManyHosts);
    }
}
