//! Reads the address and the credentials of a SQL Server from a URL or from a .NET connection string. Errors mention
//! only the name of a setting, because its value may be a password.

use tiberius::{AuthMethod, Config, EncryptionLevel};

use crate::support::error::{Error, Result};

const SCHEMES: [&str; 2] = ["mssql://", "sqlserver://"];

/// The settings that a connection string may begin with.
const KNOWN: &[&str] = &[
    "addr",
    "address",
    "app",
    "applicationintent",
    "applicationname",
    "authentication",
    "database",
    "databasename",
    "datasource",
    "encrypt",
    "hostnameincertificate",
    "initialcatalog",
    "integratedsecurity",
    "multisubnetfailover",
    "networkaddress",
    "password",
    "pwd",
    "server",
    "trustedconnection",
    "trustservercertificate",
    "trustservercertificateca",
    "uid",
    "user",
    "userid",
    "username",
];

/// Protocols that are not supported.
const OTHER_WAYS: [&str; 4] = ["np:", "lpc:", "admin:", "(localdb)"];

/// Settings that other clients use, and that we handle in our own way or not at all.
const IGNORED: &[&str] = &[
    "commandtimeout",
    "connectionlifetime",
    "connectiontimeout",
    "connectretrycount",
    "connectretryinterval",
    "connecttimeout",
    "currentlanguage",
    "enlist",
    "language",
    "loadbalancetimeout",
    "maxpoolsize",
    "minpoolsize",
    "multipleactiveresultsets",
    "packetsize",
    "persistsecurityinfo",
    "poolblockingperiod",
    "pooling",
    "timeout",
    "transactionbinding",
    "typesystemversion",
    "workstationid",
    "wsid",
];

/// The settings that were read.
#[derive(Default)]
pub(super) struct ConnectionString {
    host: Option<String>,
    port: Option<u16>,
    instance: Option<String>,
    pub(super) database: Option<String>,
    user: Option<String>,
    password: Option<String>,
    application: Option<String>,
    encrypt: Option<EncryptionLevel>,
    trusts_any: bool,
    authority: Option<String>,
    host_in_certificate: Option<String>,
    multi_subnet: bool,
}

impl ConnectionString {
    pub(super) fn parse(text: &str) -> Result<Self> {
        match SCHEMES.iter().any(|scheme| text.starts_with(scheme)) {
            true => Self::of_url(text),
            false if is_connection_string(text) => Self::of_connection_string(text),
            false => Err(Error::invalid(
                "the URL of the database must begin with mssql:// or sqlserver://; a connection string \
                 (Server=…;Database=…;User Id=…;Password=…) is accepted too",
            )),
        }
    }

    fn of_url(url: &str) -> Result<Self> {
        let unreadable = || {
            let advice = "mssql://user:password@host:1433/database, with special characters escaped as %40";
            Error::invalid(format!("the URL of the database cannot be read: it is {advice}"))
        };
        let parsed: http::Uri = url.parse().map_err(|_| unreadable())?;
        let authority = parsed.authority().ok_or_else(unreadable)?;
        // A password that contains / or ? or # would end too early, and the rest of it would be taken for something
        // else.
        let after = parsed.path_and_query().map_or("", |rest| rest.as_str());
        if after.contains('@') || url.contains('#') {
            return Err(unreadable());
        }
        let login = authority.as_str().rsplit_once('@').map(|(login, _)| login);
        let (user, password) = match login.map(|login| login.split_once(':').unwrap_or((login, ""))) {
            Some((user, password)) => (Some(decoded(user)?), Some(decoded(password)?)),
            None => (None, None),
        };
        let host = Some(authority.host().to_owned()).filter(|host| !host.is_empty());
        let database = Some(decoded(parsed.path().trim_start_matches('/'))?).filter(|name| !name.is_empty());
        let mut place = Self { host, port: authority.port_u16(), user, password, database, ..Self::default() };
        for setting in parsed.query().unwrap_or_default().split('&').filter(|setting| !setting.is_empty()) {
            let (key, value) = setting.split_once('=').unwrap_or((setting, ""));
            place.set(&decoded(key)?, decoded(value)?)?;
        }
        Ok(place)
    }

    fn of_connection_string(text: &str) -> Result<Self> {
        let mut place = Self::default();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (key, after) = rest.split_once('=').ok_or_else(|| {
                Error::invalid("the connection string cannot be read: quote a value that contains ; or = or a quote")
            })?;
            let (value, after) = value_of(after.trim_start())?;
            if place.password.is_some() && !is_known(key) {
                // It may be a part of the password.
                return Err(Error::invalid(
                    "the connection string has an unknown setting after the password: quote a password that contains ;",
                ));
            }
            place.set(key.trim(), value)?;
            rest = after.trim_start_matches([';', ' ']);
        }
        Ok(place)
    }

    fn set(&mut self, key: &str, value: String) -> Result<()> {
        match plain(key).as_str() {
            "server" | "datasource" | "address" | "addr" | "networkaddress" => self.set_server(&value)?,
            "database" | "initialcatalog" | "databasename" => self.database = Some(value),
            "user" | "userid" | "uid" | "username" => self.user = Some(value),
            "password" | "pwd" => self.password = Some(value),
            "applicationname" | "app" => self.application = Some(value),
            "encrypt" => self.encrypt = Some(encryption(key, &value)?),
            "trustservercertificate" => self.trusts_any = switch(key, &value)?,
            "trustservercertificateca" => self.authority = Some(value),
            "hostnameincertificate" => self.host_in_certificate = Some(value),
            "multisubnetfailover" => self.multi_subnet = switch(key, &value)?,
            "applicationintent" if value.eq_ignore_ascii_case("readonly") => {
                return Err(Error::invalid(format!("{key} is ReadOnly, but a store writes")));
            }
            "applicationintent" => {}
            "authentication" if value.replace(' ', "").eq_ignore_ascii_case("sqlpassword") => {}
            "authentication" => {
                return Err(Error::invalid(format!("{key} must be SqlPassword: use a SQL Server login")));
            }
            "integratedsecurity" | "trustedconnection" => {
                if value.eq_ignore_ascii_case("sspi") || switch(key, &value)? {
                    return Err(Error::invalid(format!("{key} is not supported: use a SQL Server login")));
                }
            }
            ignored if IGNORED.contains(&ignored) => {}
            _ => return Err(Error::invalid(format!("the URL or connection string has an unknown setting {key:?}"))),
        }
        Ok(())
    }

    /// Reads `tcp:host\instance,port`.
    fn set_server(&mut self, value: &str) -> Result<()> {
        let begins_with = |way: &str| value.get(..way.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(way));
        if let Some(way) = OTHER_WAYS.into_iter().find(|way| begins_with(way)) {
            return Err(Error::invalid(format!("the server can be reached only by TCP, not by {way}")));
        }
        let address = if begins_with("tcp:") { &value["tcp:".len()..] } else { value };
        let (address, port) = address.split_once(',').map_or((address, None), |(host, port)| (host, Some(port)));
        let read = |port: &str| port.trim().parse().map_err(|_| Error::invalid("the server's port is not a number"));
        self.port = port.map(read).transpose()?;
        let (host, instance) = address.split_once('\\').map_or((address, None), |(host, name)| (host, Some(name)));
        self.host = Some(match host.trim() {
            "." | "(local)" => "localhost".to_owned(),
            host => host.to_owned(),
        });
        // With a port, the browser service does not have to be asked where the instance is.
        self.instance = instance.filter(|_| self.port.is_none()).map(str::to_owned);
        Ok(())
    }

    /// Whether encryption was switched off.
    pub(super) fn may_be_plain(&self) -> bool {
        self.encrypt == Some(EncryptionLevel::Off)
    }

    pub(super) fn config(self) -> Result<Config> {
        let mut config = Config::new();
        let host =
            self.host.ok_or_else(|| Error::invalid("the database's URL or connection string names no server"))?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).map(str::to_owned);
        config.host(host);
        if let Some(name) = self.host_in_certificate.or(bare) {
            config.hostname_in_certificate(name);
        }
        if let Some(port) = self.port {
            config.port(port);
        }
        if let Some(instance) = self.instance {
            config.instance_name(instance);
        }
        if let Some(database) = self.database {
            config.database(database);
        }
        config.authentication(AuthMethod::sql_server(self.user.unwrap_or_default(), self.password.unwrap_or_default()));
        config.application_name(self.application.as_deref().unwrap_or("postroom"));
        config.encryption(self.encrypt.unwrap_or(EncryptionLevel::Required));
        match (self.trusts_any, self.authority) {
            (true, Some(_)) => {
                return Err(Error::invalid("trust either any certificate or those of one authority, not both"));
            }
            (true, None) => config.trust_cert(),
            (false, Some(authority)) => config.trust_cert_ca(authority),
            // As elsewhere, a login that is encrypted only because the server can encrypt does not prove who the server
            // is.
            (false, None) if self.encrypt == Some(EncryptionLevel::Off) => config.trust_cert(),
            (false, None) => {}
        }
        config.multi_subnet_failover(self.multi_subnet);
        Ok(config)
    }
}

/// Splits off a value of a connection string and returns the rest. A quoted value has its inner quotes doubled.
fn value_of(text: &str) -> Result<(String, &str)> {
    let Some(quote) = text.chars().next().filter(|first| matches!(first, '\'' | '"')) else {
        let (value, after) = text.split_once(';').unwrap_or((text, ""));
        return Ok((value.trim().to_owned(), after));
    };
    let mut value = String::new();
    let mut rest = &text[1..];
    loop {
        let (before, after) =
            rest.split_once(quote).ok_or_else(|| Error::invalid("the connection string has an unclosed quote"))?;
        value.push_str(before);
        rest = after;
        match rest.strip_prefix(quote) {
            Some(after) => {
                value.push(quote);
                rest = after;
            }
            None if rest.trim_start().is_empty() => return Ok((value, "")),
            None => {
                let ends = rest.trim_start().strip_prefix(';');
                let wrong =
                    || Error::invalid("the connection string continues after a quote: double the quotes in a value");
                return Ok((value, ends.ok_or_else(wrong)?));
            }
        }
    }
}

/// A setting's name in the form in which it is compared.
fn plain(key: &str) -> String {
    key.chars().filter(|c| !matches!(c, ' ' | '_' | '-')).map(|c| c.to_ascii_lowercase()).collect()
}

fn is_known(key: &str) -> bool {
    let plain = plain(key);
    KNOWN.contains(&plain.as_str()) || IGNORED.contains(&plain.as_str())
}

/// Whether a text begins like a .NET connection string.
pub(super) fn is_connection_string(text: &str) -> bool {
    text.split_once('=').is_some_and(|(key, _)| is_known(key))
}

/// Whether a text is meant for SQL Server.
pub(super) fn is_ours(text: &str) -> bool {
    SCHEMES.iter().any(|scheme| text.starts_with(scheme)) || is_connection_string(text)
}

fn switch(key: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "1" => Ok(true),
        "false" | "no" | "0" | "" => Ok(false),
        _ => Err(Error::invalid(format!("{key} must be true or false"))),
    }
}

/// With encryption off, the login is still encrypted if the server can do that.
fn encryption(key: &str, value: &str) -> Result<EncryptionLevel> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "yes" | "mandatory" | "required" => Ok(EncryptionLevel::Required),
        "false" | "no" | "optional" => Ok(EncryptionLevel::Off),
        "strict" => Ok(EncryptionLevel::Strict),
        _ => Err(Error::invalid(format!("{key} must be true, false or strict"))),
    }
}

fn decoded(text: &str) -> Result<String> {
    let wrong = || Error::invalid("the URL of the database has a % without two hexadecimal digits of UTF-8 after it");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let digits = [rest.next().ok_or_else(wrong)?, rest.next().ok_or_else(wrong)?];
        let digits = std::str::from_utf8(&digits).map_err(|_| wrong())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
    }
    String::from_utf8(bytes).map_err(|_| wrong())
}

#[cfg(test)]
mod tests;
