"""The job APIs that existing clients speak: IBM Analytics Engine's v3 and v4, and the older jobs API."""
