use super::*;

fn read(text: &str) -> ConnectionString {
    ConnectionString::parse(text).unwrap()
}

fn is(value: Option<&String>, expected: &str) -> bool {
    value.is_some_and(|value| value == expected)
}

#[test]
fn a_url_says_where_and_who_and_how() {
    let place = read("mssql://app:p%40ss%3Aw%2Ford@db.example:1444/shop?encrypt=strict&trust_server_certificate=false");
    assert!(is(place.host.as_ref(), "db.example") && place.port == Some(1444));
    assert!(is(place.user.as_ref(), "app") && is(place.password.as_ref(), "p@ss:w/ord"));
    assert!(is(place.database.as_ref(), "shop"));
    assert_eq!((place.encrypt, place.trusts_any), (Some(EncryptionLevel::Strict), false));
    assert_eq!(read("sqlserver://db.example").port, None);
    assert_eq!(place.config().unwrap().get_addr(), "db.example:1444");
}

#[test]
fn the_connection_string_of_dotnet_says_the_same() {
    let place = read(
        "Server=tcp:db.example,1444; Initial Catalog = shop;User Id=app;Password='p;a=s''s';Encrypt=Mandatory;\
         TrustServerCertificate=True;MultipleActiveResultSets=True;Connect Timeout=30;",
    );
    assert!(is(place.host.as_ref(), "db.example") && place.port == Some(1444));
    assert!(is(place.password.as_ref(), "p;a=s's") && is(place.database.as_ref(), "shop"));
    assert_eq!((place.encrypt, place.trusts_any), (Some(EncryptionLevel::Required), true));
    let named = read(r"Data Source=TCP:db.example\SQLEXPRESS, 1444;Database=shop");
    assert!(is(named.host.as_ref(), "db.example") && named.port == Some(1444) && named.instance.is_none());
    let named = read(r"Data Source=.\SQLEXPRESS;Database=shop");
    assert!(is(named.host.as_ref(), "localhost") && is(named.instance.as_ref(), "SQLEXPRESS"));
}

#[test]
fn encryption_is_on_unless_it_is_told_off() {
    assert_eq!(read("mssql://db.example/shop").encrypt, None);
    let config = read("mssql://db.example/shop").config().unwrap();
    assert!(format!("{config:?}").contains("Required"), "{config:?}");
    assert_eq!(read("mssql://db.example/shop?encrypt=false").encrypt, Some(EncryptionLevel::Off));
}

#[test]
fn what_is_wrong_is_told_without_its_value() {
    for (text, told) in [
        ("app:hunter2@db.example", "must begin with mssql://"),
        ("postgres://app:hunter2@db.example/shop?a=b", "must begin with mssql://"),
        ("mssql://app:hun ter2@db.example/shop", "cannot be read"),
        ("mssql://app:hunter2%zz@db.example/shop", "% without two"),
        ("mssql://app:hunter2@db.example/shop?encrypt=hunter2", "encrypt must be"),
        ("mssql://app:hunter2@db.example/shop?encrpyt=true", "encrpyt"),
        ("Server=db.example;Password='hunter2", "unclosed quote"),
        ("Server=db.example;Password='a'hunter2=b;Encrypt=True", "continues after a quote"),
        ("Server=db.example;Password=a;hunter2=b;Encrypt=True", "after the password"),
        ("mssql://app:12?hunter2@db.example/shop", "cannot be read"),
        ("mssql://app:12/hunter2@db.example/shop", "cannot be read"),
        ("mssql://app:12#hunter2@db.example/shop", "cannot be read"),
        ("hunter2=a;Server=db.example", "must begin with mssql://"),
        ("Server=np:db.example", "only by TCP"),
        (r"Server=(LocalDB)\MSSQLLocalDB", "only by TCP"),
        ("Server=db.example;Password=hunter2;Encrypt=hunter2", "Encrypt must be"),
        ("Server=db.example,hunter2;Password=hunter2", "port"),
        ("Server=db.example;Integrated Security=SSPI", "use a SQL Server login"),
        ("Server=db.example;Authentication=Active Directory Default", "must be SqlPassword"),
        ("Server=db.example;ApplicationIntent=ReadOnly", "a store writes"),
    ] {
        let error = ConnectionString::parse(text).map(drop).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(!format!("{error:?} {error}").contains("hunter2"), "{error:?}");
    }
    let both = read("mssql://db.example/shop?trust_server_certificate=true&trust_server_certificate_ca=/ca.pem");
    assert!(both.config().unwrap_err().to_string().contains("not both"));
    assert!(read("Database=shop").config().unwrap_err().to_string().contains("names no server"));
}

#[test]
fn an_address_of_version_6_keeps_its_brackets_and_its_certificate_does_not() {
    let config = read("mssql://[::1]:1433/shop").config().unwrap();
    assert_eq!(config.get_addr(), "[::1]:1433");
    assert!(format!("{config:?}").contains("hostname_in_certificate: Some(\"::1\")"), "{config:?}");
}
