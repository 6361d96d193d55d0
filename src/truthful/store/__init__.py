"""The service's database: accounts, studies, rosters and answers, and the transactions that change them."""
