//! An empty database for one test, on the server that all tests share; dropped with this value.

use std::io;

use crate::mariadb::MariaDb;

/// A database that no other test uses.
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
    /// Creates one on [`MariaDb::shared`].
    ///
    /// # Errors
    ///
    /// If the server does not start or refuses.
    pub fn create() -> io::Result<Self> {
        let server = MariaDb::shared()?;
        let name = server.access().create_database()?;
        let url = server.access().url(&name);
        Ok(Self { server, name, url })
    }

    /// Returns its URL.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns its name on the server.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its server: the one started for all tests, or else a private one.
    #[must_use]
    pub fn server(&self) -> &MariaDb {
        &self.server
    }

    /// Like [`MariaDb::query`], in this database.
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
        // A private server ends with this value anyway, and may be paused. On the shared one a
        // database that stays behind, because a transaction is still open, does no harm.
        if self.server.is_shared() {
            let _ = self.server.access().drop_database(&self.name);
        }
    }
}
