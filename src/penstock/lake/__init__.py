"""Object stores: named lakes, their gateways, credentials by reference, and what each supports."""
