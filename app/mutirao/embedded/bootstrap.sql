-- Run at every start by the superuser: the application's role owns its database and may do nothing else.
\set ON_ERROR_STOP on
\getenv password MUTIRAO_BOOTSTRAP_PASSWORD
SELECT 'CREATE ROLE mutirao LOGIN' WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'mutirao')
\gexec
ALTER ROLE mutirao PASSWORD :'password';
SELECT 'CREATE DATABASE mutirao OWNER mutirao'
WHERE NOT EXISTS (SELECT FROM pg_database WHERE datname = 'mutirao')
\gexec
