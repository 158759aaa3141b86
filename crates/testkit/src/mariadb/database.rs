//! An empty database for one test, on the server that all tests share; gone with this value.

use std::io;

use crate::mariadb::MariaDb;

/// A database that nobody else uses.
///
/// ```no_run
/// use seawall_testkit::TestDatabase;
///
/// let database = TestDatabase::create()?;
/// // … connect to database.url() …
/// database.query("CREATE TABLE t (n INT PRIMARY KEY)")?;
/// assert_eq!(database.query("SELECT COUNT(*) FROM t")?, "0\n");
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct TestDatabase {
    server: MariaDb,
    name: String,
    url: String,
}

impl TestDatabase {
    /// A new one on [`MariaDb::shared`].
    ///
    /// # Errors
    ///
    /// When the server does not start or refuses.
    pub fn create() -> io::Result<Self> {
        let server = MariaDb::shared()?;
        let name = server.access().create_database()?;
        let url = server.access().url(&name);
        Ok(Self { server, name, url })
    }

    /// Where to connect.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name on the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server it is on; one of its own unless one was started for all tests.
    #[must_use]
    pub fn server(&self) -> &MariaDb {
        &self.server
    }

    /// As [`MariaDb::query`], in this database.
    ///
    /// # Errors
    ///
    /// As [`MariaDb::query`].
    pub fn query(&self, sql: &str) -> io::Result<String> {
        self.server.access().query(&self.name, sql)
    }
}

impl Drop for TestDatabase {
    fn drop(&mut self) {
        // A server of its own ends with this value anyway, and may be paused. On the shared one
        // a database that stays behind, because a transaction is still open, harms nobody.
        if self.server.is_shared() {
            let _ = self.server.access().drop_database(&self.name);
        }
    }
}
