-- One pass over store_sales: how many rows, and for every key how many are present, how many differ, and the largest.
SELECT
  count(*) AS total,
  count(ss_sold_date_sk) AS dated,
  count(DISTINCT ss_sold_date_sk) AS dates,
  max(ss_sold_date_sk) AS last_date,
  count(DISTINCT ss_sold_time_sk) AS times,
  max(ss_sold_time_sk) AS last_time,
  count(DISTINCT ss_item_sk) AS items,
  max(ss_item_sk) AS last_item,
  count(DISTINCT ss_customer_sk) AS customers,
  max(ss_customer_sk) AS last_customer,
  max(ss_cdemo_sk) AS last_cdemo,
  max(ss_hdemo_sk) AS last_hdemo,
  max(ss_addr_sk) AS last_addr,
  count(DISTINCT ss_store_sk) AS stores,
  max(ss_store_sk) AS last_store,
  count(DISTINCT ss_promo_sk) AS promotions,
  max(ss_promo_sk) AS last_promotion,
  max(ss_ticket_number) AS last_ticket,
  max(ss_net_paid) AS highest_paid,
  max(ss_net_profit) AS highest_profit
FROM store_sales
